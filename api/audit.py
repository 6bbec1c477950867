"""Endpoints of the audit log."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Query
from pydantic import AliasPath, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from api.auth.permissions import AuditReader, Client
from api.counts import LARGE
from api.services import Injected
from api.stores.bounds import check_store
from api.web.pages import ROW_BYTES
from api.web.paging import DEFAULT_TAKE, OptionalMoment, OptionalSince, Skip, Take, total_count
from api.web.queries import any_case
from api.web.responses import JsonResponse, Row, Timestamp
from api.web.routes import routes
from domain.csv_cells import cells_of
from domain.permissions import Caller
from domain.reviews_facts import ReasonCode
from messaging.schemas import OptionalId
from storage.audit import AT_ONCE, AuditAction, AuditEntry, AuditKind, AuditSearch
from storage.queries import in_batches


class AuditRow(Row):
    """A change that took effect: a moderation or edit of a review, a reply, the deletion of a return, a change of
    settings, of a store or of a template, or the replay or discard of a dead letter. `subject` made it; `fields` names
    the changed fields, `letter` is the place of the letter."""

    at: Timestamp
    kind: AuditKind
    subject: str | None
    action: AuditAction
    review_id: str | None
    return_id: str | None
    template_name: Annotated[str | None, Field(validation_alias="template")] = None
    language_code: Annotated[str | None, Field(validation_alias="language")] = None
    entity_type: Annotated[str | None, Field(validation_alias=AliasPath("entity", "type"))] = None
    entity_id: Annotated[str | None, Field(validation_alias=AliasPath("entity", "id"))] = None
    store_id: str | None
    reason: str | None
    reason_code: ReasonCode | None
    command_id: str | None
    fields: list[str]
    letter: str | None


class AuditPage(TypedDict):
    """One page of the log, and the total number of entries; null if it isn't requested."""

    totalCount: int | None
    results: list[AuditRow]


class ExportFormat(StrEnum):
    """The format of an export."""

    CSV = "csv"
    JSONL = "jsonl"


_MEDIA_TYPES: Final = {ExportFormat.CSV: "text/csv; charset=utf-8", ExportFormat.JSONL: "application/jsonl"}
_EXPORTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {type: {"schema": {"type": "string"}} for type in ("text/csv", "application/jsonl")}}
}

router: Final = routes("/api/audit", "Audit")


async def _criteria(
    review_id: Annotated[OptionalId, Query(alias="reviewId")] = None,
    subject: Annotated[OptionalId, Query(description="Who made the change")] = None,
    action: Annotated[AuditAction | None, any_case(AuditAction), Query(description="Action of the entry")] = None,
    kind: Annotated[
        AuditKind | None, any_case(AuditKind), Query(description="Kind of thing that the entry concerns")
    ] = None,
    store_id: Annotated[OptionalId, Query(alias="storeId")] = None,
    since: Annotated[OptionalSince, Query(description="Only entries from this time or later")] = None,
    until: Annotated[OptionalMoment, Query(description="Only entries from this time or earlier")] = None,
) -> AuditSearch:
    return AuditSearch(
        review_id=review_id,
        subject=subject,
        action=action,
        kind=kind,
        stores=None if store_id is None else [store_id],
        since=since,
        until=until,
    )


Criteria = Annotated[AuditSearch, Depends(_criteria)]


@router.get("", response_model=AuditPage)
async def read_audit_log(
    caller: AuditReader,
    services: Injected,
    criteria: Criteria,
    take: Annotated[Take, Query()] = DEFAULT_TAKE,
    skip: Annotated[Skip, Query()] = 0,
    with_total: Annotated[
        bool, Query(alias="withTotal", description="false: `totalCount` is null, and isn't computed")
    ] = True,
) -> JsonResponse:
    """The audit log, newest first: who moderated or edited reviews, deleted returns, changed settings, stores and
    templates, or replayed or discarded dead letters, when and why."""
    search = replace(_within(caller, criteria), take=take, skip=skip)
    with await services.pages.rows(search.take):
        page = await services.audit.search(search)
        same = replace(search, take=0, skip=0)
        count = partial(services.large_counts.of, same, partial(services.audit.count, same, exact_below=LARGE))
        total = await total_count(len(page), search.skip, search.take, count) if with_total else None
        return JsonResponse({"totalCount": total, "results": [AuditRow.of(entry) for entry in page]})


@router.get("/export", response_class=StreamingResponse, responses=_EXPORTED)
async def export_audit_log(
    caller: AuditReader,
    client: Client,
    services: Injected,
    criteria: Criteria,
    format: Annotated[
        ExportFormat, any_case(ExportFormat), Query(description="Format of the export")
    ] = ExportFormat.CSV,
    take: Annotated[
        int | None, Query(ge=1, le=2**31 - 1, description="Maximum number of entries; missing: all")
    ] = None,
) -> Response:
    """All matching entries, newest first, without paging: as CSV with a header row, or as one JSON object per line.

    In CSV, text that a spreadsheet would run as a formula starts with an apostrophe.
    """
    content = _exported(services.audit.every(_within(caller, criteria), take), format)
    headers = {"Content-Disposition": f'attachment; filename="audit.{format}"'}
    return await services.pages.export(client, AT_ONCE * ROW_BYTES, content, _MEDIA_TYPES[format], headers)


def _within(caller: Caller, search: AuditSearch) -> AuditSearch:
    """The search, restricted to the caller's stores. Raises ProblemError if it names another store."""
    if search.stores is None:
        return replace(search, stores=caller.stores)
    for store_id in search.stores:
        check_store(caller, store_id)
    return search


async def _exported(entries: AsyncIterator[AuditEntry], format: ExportFormat) -> AsyncIterator[bytes]:
    header, written = (_CSV_HEADER, _csv) if format is ExportFormat.CSV else (b"", _json_lines)
    batches = in_batches(entries, AT_ONCE)
    yield header + written(await anext(batches, []))
    async for batch in batches:
        yield written(batch)


def _csv(entries: Sequence[AuditEntry]) -> bytes:
    text = io.StringIO(newline="")
    rows = csv.DictWriter(text, _COLUMNS)
    for entry in entries:
        row = AuditRow.of(entry)
        row["fields"] = " ".join(row["fields"])
        rows.writerow(cells_of(row))
    return text.getvalue().encode()


def _json_lines(entries: Sequence[AuditEntry]) -> bytes:
    return b"".join(orjson.dumps(AuditRow.of(entry)) + b"\n" for entry in entries)


_COLUMNS: Final = [to_camel(name) for name in AuditRow.model_fields]
_CSV_HEADER: Final = f"{','.join(_COLUMNS)}\r\n".encode()
