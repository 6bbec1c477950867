"""The endpoint that lists API keys. They are made and revoked by the command line alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

from typing_extensions import TypedDict

from api.auth.permissions import KeyReader
from api.services import Injected
from api.stores.bounds import check_unbound
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.permissions import Permission
from domain.timestamps import timestamp
from messaging.schemas import ShownMoment
from storage.keys import ApiKey


class ShownKey(TypedDict):
    """A key without its secret, which its owner alone has. `stores` is null for all, `expiryDate` for never."""

    id: str
    subject: str | None
    permissions: list[Permission]
    stores: list[str] | None
    state: Literal["valid", "expired", "revoked"]
    createdDate: ShownMoment
    expiryDate: ShownMoment | None
    revokedDate: ShownMoment | None


router: Final = routes("/api/keys", "Callers", ProblemKind.UNAVAILABLE)


@router.get("", response_model=list[ShownKey])
async def list_keys(caller: KeyReader, services: Injected) -> JsonResponse:
    """Every API key, also those that are revoked or have expired. Not for callers bound to stores."""
    check_unbound(caller)
    now = datetime.now(UTC)
    with await services.pages.piece(await services.keys.size()):
        return JsonResponse([shown_key(key, now) for key in await services.keys.all()])


def shown_key(key: ApiKey, now: datetime) -> ShownKey:
    """A key as it is shown at this moment, to clients and by `plaudit keys list --json`."""
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
