"""The endpoint that tells callers who they are."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import PlainSerializer

from api.auth.permissions import AnyCaller
from api.services import Injected
from api.web.problems import ProblemKind
from api.web.responses import JsonResponse, Row
from api.web.routes import routes
from domain.permissions import Permission


class Me(Row):
    """A caller: null for the subject without authentication, and for the stores where it is bound to none."""

    subject: str | None
    permissions: Annotated[frozenset[Permission], PlainSerializer(sorted, return_type=list[Permission])]
    stores: Annotated[frozenset[str] | None, PlainSerializer(lambda stores: stores and sorted(stores))]
    authentication: str


router: Final = routes("/api/me", "Callers", ProblemKind.UNAUTHENTICATED)


@router.get("", response_model=Me)
async def read_me(caller: AnyCaller, services: Injected) -> JsonResponse:
    """The caller, with its permissions and stores."""
    return JsonResponse(
        Me.of(
            {
                "subject": caller.subject,
                "permissions": caller.permissions,
                "stores": caller.stores,
                "authentication": services.authenticator.mode,
            }
        )
    )
