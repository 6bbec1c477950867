"""Stores: the list, and the settings of one."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from api.stores.routes import STORE_FIELDS, ShownStore
from console.api_client import Refused, segment
from console.fields import Form
from console.screens import Screens, page_of_rows
from console.settings import METHODS, change, form_page
from console.settings_fields import Configured, Field, Kind
from console.visits import Visit, key_of
from domain.permissions import Permission
from domain.stores import Store

PATH: Final = "/console/stores"
STORES: Final = "/api/stores"

_FIELDS: Final = (
    Field("name", "Name"),
    Field("email", "E-mail address", hint="With or without a name: Shop <shop@example.org>"),
    Field("languages", "Languages", Kind.LINES, hint="One per line, like en-US"),
    Field("settings.reviewsEnabled", "Accept reviews", Kind.CHECK),
    Field("settings.anonymousReviewsAllowed", "Accept reviews from people who are not signed in", Kind.CHECK),
    Field("settings.purchaseRequired", "Only from people who bought the object", Kind.CHECK),
    Field("settings.oneReviewPerCustomer", "One review per customer and object", Kind.CHECK),
    Field("settings.editsKeepStatus", "Reviews keep their status when their author edits them", Kind.CHECK),
    Field(
        "settings.ratingCalculationMethod",
        "Ratings",
        Kind.CHOICE,
        choices=[("", "general setting"), *METHODS],
        general="ratingCalculationMethod",
    ),
    Field(
        "settings.returnNumberTemplate",
        "Template of return numbers",
        hint="Empty: the general setting",
        general="returnNumberTemplate",
    ),
    Field(
        "settings.reviewUrl",
        "Page where customers write reviews",
        hint="With {productId} and {token}; empty: no links in mails",
    ),
    Field(
        "settings.storefrontOrigins",
        "Origins of web pages that show and submit reviews",
        Kind.LINES,
        hint="One per line, like https://shop.example",
    ),
)

screens = Screens()


@screens.get("/stores", Permission.READ_SETTINGS)
async def stores(visit: Visit) -> Response:
    """The stores that the visitor may see, by id."""
    return await _list_page(visit)


@screens.post("/stores", Permission.READ_SETTINGS, Permission.UPDATE_SETTINGS)
async def register(visit: Visit) -> Response:
    """Register a store, which takes no reviews yet. A refused form keeps its input."""
    form = await visit.form()
    id = form.get("id", "").strip()
    try:
        name = form.get("name", "").strip()
        if found := await _store_with(visit, id):
            # A form that is sent twice finds the store that it registered.
            if not _is_as_registered(found, name):
                raise Refused(409, {"detail": "A store with this id already exists. Choose another id."})
            return visit.back(f"{PATH}/{segment(id)}", "created")
        answer = await visit.facade.command("PUT", store_path(id), {"name": name or None}, key=key_of(form))
    except Refused as refused:
        if refused.status == 401:
            raise
        return await _list_page(visit, form, refused)
    if answer["outcome"] == "accepted":
        return visit.back(PATH, "accepted")
    return visit.back(f"{PATH}/{segment(id)}", "created")


@screens.get("/stores/{id}", Permission.READ_SETTINGS)
async def store(visit: Visit) -> Response:
    """One store: each setting and its source."""
    return form_page(visit, await _store(visit))


@screens.post("/stores/{id}", Permission.READ_SETTINGS, Permission.UPDATE_SETTINGS)
async def change_store(visit: Visit) -> Response:
    """Show the changes, or save them."""
    return await change(visit, await _store(visit))


async def _list_page(visit: Visit, form: Form | None = None, refused: Refused | None = None) -> Response:
    """The list, with the form to register a store as it was submitted. Raises Refused."""
    found, next = await page_of_rows(visit, STORES, visit.query.get("q"))
    is_part = bool(next or visit.query.keys() & {"q", "after"})
    typed = {name: (form or Form()).get(name, "") for name in ("id", "name")}
    own, known = visit.caller.stores, {store["id"] for store in found}
    return visit.page(
        "stores.html",
        stores=found,
        next=next,
        is_part=is_part,
        # Visitors bound to stores can register only these. A part of the list doesn't show if all of them are.
        may_register=visit.may(Permission.UPDATE_SETTINGS) and (own is None or is_part or not own <= known),
        typed=typed,
        refused=refused,
    )


async def _store_with(visit: Visit, id: str) -> dict[str, Any] | None:
    """The store with this id; None if there is none. Raises Refused, also for an id that a store can't have."""
    # As path segments these would lead elsewhere.
    if id in ("", ".", ".."):
        raise Refused(422, {"detail": "A store needs an id that doesn't consist of dots only."})
    found: dict[str, Any] | None = await visit.facade.find(store_path(id))
    return found


def _is_as_registered(store: Mapping[str, Any], name: str) -> bool:
    """True if a store has this name and nothing else of its own, as after its registration."""
    return store == ShownStore.of(Store(store["id"], name or None))


def store_path(store_id: str) -> str:
    """The path of a store in the API."""
    return f"{STORES}/{segment(store_id)}"


async def _store(visit: Visit) -> Configured:
    id = visit.path["id"]
    document = await visit.facade.ask("GET", store_path(id))
    path = f"{PATH}/{segment(id)}"
    title = document["name"] or id
    general = await _general(visit)
    return Configured(title, _FIELDS, store_path(id), STORE_FIELDS, path, "this store", document, general)


async def _general(visit: Visit) -> dict[str, Any] | None:
    """The general settings; None for visitors bound to stores, who may not see them."""
    if visit.caller.stores is not None:
        return None
    answer: dict[str, Any] = await visit.facade.ask("GET", "/api/settings")
    return answer
