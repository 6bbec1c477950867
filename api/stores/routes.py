"""Endpoints of stores and of the general settings."""

from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query
from pydantic import PlainSerializer, TypeAdapter
from starlette.responses import Response

from api import examples
from api.auth.permissions import SettingsEditor, SettingsReader
from api.commands import Commanded, carry_out, command_answers
from api.services import Injected
from api.stores.bounds import by, check_store, check_unbound
from api.web.bodies import JsonBody
from api.web.openapi import problems
from api.web.paging import MAX_TAKE
from api.web.problems import ProblemError, ProblemKind, invalid_at
from api.web.responses import JsonResponse, Row
from api.web.routes import routes
from domain.moderation_rules import ModerationRule
from domain.ratings import RatingMethod
from domain.stores import GENERAL
from messaging.chosen_ids import NewStoreId
from messaging.moderation_rules import ShownRule, shown_rule
from messaging.schemas import OptionalId, Phrase
from messaging.stores import GeneralSettingsFields, StoreFields
from messaging.topics import Topic
from storage.stores import StoreSearch

SETTINGS_FIELDS: Final = JsonBody(TypeAdapter(GeneralSettingsFields), {"Some settings": examples.SETTINGS})
STORE_FIELDS: Final = JsonBody(TypeAdapter(StoreFields), {"Reviews by everyone": examples.STORE})


class ShownReminder(Row):
    """The settings of review reminders."""

    enabled: bool
    cron: str
    days_in_status: int
    order_status: str
    max_emails_per_customer: int
    max_age_days: int
    limit_period_days: int | None


class ShownSettings(Row):
    """The settings that apply to all stores."""

    rating_calculation_method: RatingMethod
    return_number_template: str
    return_statuses: list[str]
    reminder: ShownReminder


class ShownStoreSettings(Row):
    """The settings of one store."""

    reviews_enabled: bool
    anonymous_reviews_allowed: bool
    purchase_required: bool
    one_review_per_customer: bool
    edits_keep_status: bool
    rating_calculation_method: RatingMethod | None
    return_number_template: str | None
    review_url: str | None
    moderation_rules: Annotated[
        tuple[ModerationRule, ...],
        PlainSerializer(lambda rules: [shown_rule(rule) for rule in rules], return_type=list[ShownRule]),
    ]
    storefront_origins: list[str]


class ShownStore(Row):
    """A store with its settings."""

    id: str
    name: str | None
    email: str | None
    languages: list[str]
    settings: ShownStoreSettings


router: Final = routes("/api", "Stores and settings")


@router.get("/settings", response_model=ShownSettings)
async def read_settings(caller: SettingsReader, services: Injected) -> JsonResponse:
    """The settings that apply to all stores. Not for callers bound to some."""
    check_unbound(caller)
    settings = await services.stores.general()
    services.lookups.forget()
    return JsonResponse(ShownSettings.of(settings))


@router.put("/settings", **command_answers())
async def change_settings(
    caller: SettingsEditor,
    fields: Annotated[GeneralSettingsFields, Depends(SETTINGS_FIELDS)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Change settings that apply to all stores; omitted fields keep their values. Not for callers bound to some."""
    check_unbound(caller)
    value = {"generalSettings": _given(fields), **by(caller), **command.id_field}
    message = services.message(Topic.STORE_UPDATES, GENERAL, "settings.update", value)
    return await carry_out(services, command, [GENERAL], [message], done=services.lookups.forget)


@router.get("/stores", response_model=list[ShownStore])
async def list_stores(
    caller: SettingsReader,
    services: Injected,
    search_phrase: Annotated[
        Phrase | None, Query(alias="searchPhrase", description="A part of the id or of the name, in any letter case")
    ] = None,
    take: Annotated[int | None, Query(ge=1, le=MAX_TAKE, description="Maximum number of stores; missing: all")] = None,
    after: Annotated[OptionalId, Query(description="Id of the last store of the previous page")] = None,
) -> JsonResponse:
    """All registered stores, by id, or a page of them."""
    search = StoreSearch(caller.stores, search_phrase, after, take)
    with await services.pages.piece(await services.stores.size(search)):
        stores = await services.stores.page(search)
        services.lookups.forget()
        return JsonResponse([ShownStore.of(store) for store in stores])


@router.get("/stores/{storeId}", response_model=ShownStore, responses=problems(ProblemKind.NOT_FOUND))
async def read_store(
    caller: SettingsReader, store_id: Annotated[str, Path(alias="storeId")], services: Injected
) -> JsonResponse:
    """One store."""
    check_store(caller, store_id)
    store = await services.stores.get(store_id)
    services.lookups.forget()
    if store is None:
        raise ProblemError(ProblemKind.NOT_FOUND, "There is no store with this id. Register it first.")
    return JsonResponse(ShownStore.of(store))


@router.put("/stores/{storeId}", **command_answers())
async def change_store(
    caller: SettingsEditor,
    store_id: Annotated[NewStoreId, Path(alias="storeId")],
    fields: Annotated[StoreFields, Depends(STORE_FIELDS)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Register a store or change it; omitted fields keep their values."""
    check_store(caller, store_id)
    if fields.id not in (None, store_id):
        raise invalid_at("/id", "other-id", f"Must be {store_id}, the store in the path")
    value = {**_given(fields), "id": store_id, **by(caller), **command.id_field}
    message = services.message(Topic.STORE_UPDATES, store_id, "store.update", value)
    return await carry_out(services, command, [store_id], [message], done=services.lookups.forget)


def _given(fields: GeneralSettingsFields | StoreFields) -> dict[str, Any]:
    return fields.model_dump(mode="json", by_alias=True, exclude_unset=True)
