"""The endpoint of the audit log."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AliasPath, Field
from typing_extensions import TypedDict

from api.auth.permissions import AuditReader
from api.services import Injected
from api.stores.bounds import check_store
from api.web.documents import problems
from api.web.paging import DEFAULT_TAKE, Moment, Skip, Take, total_count
from api.web.problems import ProblemKind
from api.web.queries import any_case
from api.web.responses import JsonResponse, Row, Timestamp
from api.web.routes import PlainRoute
from domain.reviews import ModerationAction
from domain.reviews_facts import ReasonCode
from messaging.schemas import OptionalId
from storage.audit import AuditedAction, AuditSearch, Editing, Imaging, Replaying, Replying, RuleAction


class AuditRow(Row):
    """One moderation or edit of a review, reply to one, deletion of a return, or replay of a dead letter, that took
    effect; `subject` is who did it, `fields` what an edit changed, `letter` the place of the letter."""

    at: Timestamp
    subject: str | None
    action: AuditedAction
    review_id: str | None
    return_id: str | None
    entity_type: Annotated[str | None, Field(validation_alias=AliasPath("entity", "type"))] = None
    entity_id: Annotated[str | None, Field(validation_alias=AliasPath("entity", "id"))] = None
    store_id: str | None
    reason: str | None
    reason_code: ReasonCode | None
    command_id: str | None
    fields: list[str]
    letter: str | None


class AuditPage(TypedDict):
    """One page of the log, and how many entries there are over all pages."""

    totalCount: int
    results: list[AuditRow]


router = APIRouter(
    route_class=PlainRoute,
    prefix="/api/audit",
    tags=["Audit"],
    responses=problems(ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE),
)


@router.get("", response_model=AuditPage)
async def read_audit_log(
    caller: AuditReader,
    services: Injected,
    review_id: Annotated[OptionalId, Query(alias="reviewId")] = None,
    subject: Annotated[OptionalId, Query()] = None,
    action: Annotated[
        AuditedAction | None, any_case(ModerationAction, Editing, Replying, RuleAction, Imaging, Replaying), Query()
    ] = None,
    store_id: Annotated[OptionalId, Query(alias="storeId")] = None,
    since: Annotated[Moment | None, Query(description="Then or later")] = None,
    until: Annotated[Moment | None, Query(description="Then or earlier")] = None,
    take: Annotated[Take, Query()] = DEFAULT_TAKE,
    skip: Annotated[Skip, Query()] = 0,
) -> JsonResponse:
    """The moderation and editing of reviews, the deletion of returns and the replay of dead letters: by whom, when and
    why; the newest first."""
    if store_id is not None:
        check_store(caller, store_id)
    search = AuditSearch(
        review_id=review_id,
        subject=subject,
        action=action,
        stores=caller.stores if store_id is None else [store_id],
        since=since,
        until=until,
        skip=skip,
        take=take,
    )
    with await services.pages.rows(search.take):
        page = await services.audit.search(search)
        total = await total_count(len(page), search.skip, search.take, partial(services.audit.count, search))
        return JsonResponse({"totalCount": total, "results": [AuditRow.of(entry) for entry in page]})
