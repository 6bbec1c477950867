"""Access to the console: the interface that identifies visitors."""

from collections.abc import Sequence
from typing import Final, Protocol

from starlette.requests import Request
from starlette.routing import BaseRoute

SIGN_IN: Final = "/console/sign-in"


class ConsoleAccess(Protocol):
    """Finds the credential by which the facade identifies a visitor."""

    is_open: bool
    """True if nobody has to sign in."""

    routes: Sequence[BaseRoute]
    """The pages for signing in and out."""

    async def credential(self, request: Request) -> str | None:
        """The visitor's credential; None if they have to sign in, or nobody has to. Raises Refused: it can't be
        determined at the moment."""
        ...
