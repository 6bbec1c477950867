"""The screens of the console: their addresses, required permissions and handlers."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from console.visits import Visit
from domain.permissions import Permission

ROWS: Final = 50
"""Number of rows on a page of a list."""

Handler = Callable[[Visit], Awaitable[Response]]


class Screen(NamedTuple):
    """A path below `/console` for one method. The visitor needs all of the permissions."""

    method: str
    path: str
    permissions: tuple[Permission, ...]
    handler: Handler


class Screens(list[Screen]):
    """The screens of one module."""

    def get(self, path: str, *permissions: Permission) -> Callable[[Handler], Handler]:
        """Register a page."""
        return self._decorator("GET", path, permissions)

    def post(self, path: str, *permissions: Permission) -> Callable[[Handler], Handler]:
        """Register an action: a submitted form."""
        return self._decorator("POST", path, permissions)

    def _decorator(self, method: str, path: str, permissions: tuple[Permission, ...]) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            self.append(Screen(method, path, permissions, handler))
            return handler

        return register


async def page_of_rows(visit: Visit, path: str, phrase: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """A page of the API's list at this path, whose positions are ids, with the position of the next one, if there are
    more. Raises Refused."""
    query = {"searchPhrase": phrase, "after": visit.query.get("after"), "take": ROWS + 1}
    found = await visit.facade.ask("GET", path, query=query)
    return found[:ROWS], found[ROWS - 1]["id"] if len(found) > ROWS else None
