"""Endpoints of callers: the API keys, which only the command line creates and revokes, and the caller itself."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from fastapi import Query
from typing_extensions import TypedDict

from api.auth.permissions import AnyCaller, KeyReader
from api.services import Injected
from api.stores.bounds import check_unbound
from api.web.openapi import problems
from api.web.paging import MAX_TAKE
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.permissions import Permission
from domain.timestamps import timestamp
from messaging.schemas import OptionalId, Phrase, ShownMoment
from storage.keys import ApiKey, KeySearch


class ShownKey(TypedDict):
    """A key without its secret, which only its owner has. `stores` is null for all, `expiryDate` for a key that never
    expires."""

    id: str
    subject: str | None
    permissions: list[Permission]
    stores: list[str] | None
    state: Literal["valid", "expired", "revoked"]
    createdDate: ShownMoment
    expiryDate: ShownMoment | None
    revokedDate: ShownMoment | None


class Me(TypedDict):
    """The caller. `subject` is null without authentication, `stores` if the caller isn't bound to stores."""

    subject: str | None
    permissions: list[Permission]
    stores: list[str] | None
    authentication: str


router: Final = routes("/api", "Callers")


@router.get("/keys", response_model=list[ShownKey])
async def list_keys(
    caller: KeyReader,
    services: Injected,
    search_phrase: Annotated[
        Phrase | None,
        Query(
            alias="searchPhrase", description="A part of the id, of the subject or of a store's id, in any letter case"
        ),
    ] = None,
    take: Annotated[int | None, Query(ge=1, le=MAX_TAKE, description="Maximum number of keys; missing: all")] = None,
    after: Annotated[OptionalId, Query(description="Id of the last key of the previous page")] = None,
) -> JsonResponse:
    """All API keys, including revoked and expired ones, by subject and age, or a page of them. Not for callers bound to
    stores."""
    check_unbound(caller)
    now, search = datetime.now(UTC), KeySearch(search_phrase, after, take)
    with await services.pages.piece(await services.keys.size(search)):
        return JsonResponse([shown_key(key, now) for key in await services.keys.page(search)])


def shown_key(key: ApiKey, now: datetime) -> ShownKey:
    """A key as clients and `plaudit keys list --json` show it at this moment."""
    caller = key.caller
    return {
        "id": key.id,
        "subject": caller.subject,
        "permissions": sorted(caller.permissions),
        "stores": None if caller.stores is None else sorted(caller.stores),
        "state": "valid" if key.is_valid(now) else "revoked" if key.revoked else "expired",
        "createdDate": timestamp(key.created),
        "expiryDate": timestamp(key.expires) if key.expires else None,
        "revokedDate": timestamp(key.revoked) if key.revoked else None,
    }


@router.get("/me", response_model=Me, responses=problems(ProblemKind.UNAUTHENTICATED))
async def read_me(caller: AnyCaller, services: Injected) -> JsonResponse:
    """The caller, with its permissions and stores."""
    me: Me = {
        "subject": caller.subject,
        "permissions": sorted(caller.permissions),
        "stores": None if caller.stores is None else sorted(caller.stores),
        "authentication": services.authenticator.mode,
    }
    return JsonResponse(me)
