"""The way into the console: who a visitor is."""

from collections.abc import Sequence
from typing import Final, Protocol

from starlette.requests import Request
from starlette.routing import BaseRoute

SIGN_IN: Final = "/console/sign-in"


class Door(Protocol):
    """Tells the credential of a visitor, by which the facade knows him. `is_open`: nobody has to say who he is."""

    is_open: bool
    routes: Sequence[BaseRoute]
    """The pages of signing in and out."""

    async def credential(self, request: Request) -> str | None:
        """The visitor's credential; None where he has to sign in, and where the door is open. Raises Refused while that
        can't be told."""
        ...


class OpenDoor(Door):
    """Lets everybody in, where the facade does so."""

    is_open = True
    routes: Sequence[BaseRoute] = ()

    async def credential(self, request: Request) -> None:
        """Nobody signs in, so that there is none."""
