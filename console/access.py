"""Access to the console: the interface that identifies visitors, and the time that this may take."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol, TypeVar

from starlette.requests import Request
from starlette.routing import BaseRoute

from api.web.problems import unavailable
from console.api_client import refusal_by

T = TypeVar("T")
SIGN_IN: Final = "/console/sign-in"
_CHECK_LIMIT_S: Final = 15.0
"""Seconds for each of the two steps that identify the visitor of a page. Both end before the deadline of requests,
which would answer no page, and doesn't apply to an answer that has begun."""


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


async def in_time(step: Awaitable[T]) -> T:
    """The result of a step that identifies a visitor. Raises its errors, or Refused if it takes longer than
    _CHECK_LIMIT_S."""
    try:
        async with asyncio.timeout(_CHECK_LIMIT_S):
            return await step
    except TimeoutError as error:
        raise refusal_by(unavailable("The database")) from error
