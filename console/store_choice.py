"""The choice of a store for a list: a separate page, so that lists needn't load stores."""

from typing import Any, Final

from starlette.responses import Response

from console.api_client import Refused
from console.screens import ROWS, Screens, page_of_rows
from console.stores import STORES
from console.visits import Visit
from domain.permissions import Permission

_LISTS: Final = ("queue", "reviews")

screens = Screens()


@screens.get("/choose-store/reminders", Permission.READ_SETTINGS)
async def choose_for_reminders(visit: Visit) -> Response:
    """The stores for the preview of reminders."""
    return await _page(visit, "reminders")


@screens.get("/choose-store/{list}", Permission.READ_REVIEWS)
async def choose(visit: Visit) -> Response:
    """The stores for a list of reviews."""
    if visit.path["list"] not in _LISTS:
        raise Refused(404, {"detail": "There is no such page."})
    return await _page(visit, visit.path["list"])


async def _page(visit: Visit, list: str) -> Response:
    """The stores that the visitor may see, each linking to the list with its filters, which have other names than the
    parameters of this page. `stores` is None for visitors who may not read them: they type an id."""
    stores, next = await _stores(visit, visit.query.get("named", ""))
    return visit.page("store_choice.html", list=list, stores=stores, next=next)


async def _stores(visit: Visit, phrase: str) -> tuple[list[dict[str, Any]] | None, str | None]:
    """A page of the stores, and the position of the next one."""
    if visit.may(Permission.READ_SETTINGS):
        return await page_of_rows(visit, STORES, phrase)
    own = visit.caller.stores
    if own is None:
        return None, None
    after = visit.query.get("after", "")
    ids = [id for id in sorted(own) if id > after and phrase.casefold() in id.casefold()]
    return [{"id": id, "name": None} for id in ids[:ROWS]], ids[ROWS - 1] if len(ids) > ROWS else None
