"""Reports about reviews. An open report counts with its review until a decision settles it."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateMany, UpdateOne

from domain.feedback_reports import Report, ReportReason, Settlement
from domain.moderation import Moderation
from domain.reviews import ModerationAction
from domain.timestamps import EPOCH
from storage.database import Database, Document, Session
from storage.id_ranges import TEXTS, found_in_ranges, update_in_ranges
from storage.queries import write_all
from storage.shapes import (
    DATE,
    STRING,
    TEXT_OR_NULL,
    RequiredField,
    Shape,
    check_whole,
    default_field,
    irrecoverable_field,
    read_for_display,
    with_stand_ins,
)

COLLECTION: Final = "reports"

MOST_AT_ONCE: Final = 5_000
"""The maximum number of reports settled in one transaction: one with far more doesn't fit into MongoDB's cache."""

_OPEN: Final[Document] = {"isOpen": True}
_NEWEST: Final = [("at", DESCENDING), ("_id", DESCENDING)]

_BY_REVIEW: Final = [("reviewId", ASCENDING)]

INDEXES: Final = [
    IndexModel([*_BY_REVIEW, *_NEWEST], name="review_newest"),
    IndexModel(_BY_REVIEW, name="open", partialFilterExpression=_OPEN),
]


def _received(document: Document) -> datetime:
    """The time of the decision that settled it, else EPOCH."""
    match document.get("settled"):
        case {"at": datetime() as at}:
            return at
        case _:
            return EPOCH


REPORT: Final = Shape(
    COLLECTION,
    {
        "reviewId": irrecoverable_field(STRING, "?"),
        "reason": irrecoverable_field(STRING, ReportReason.OTHER.value, [reason.value for reason in ReportReason]),
        "explanation": irrecoverable_field(STRING, ""),
        "at": RequiredField(DATE, _received),
        **dict.fromkeys(("name", "email", "userId"), default_field(TEXT_OR_NULL)),
    },
)


class ReportRepository:
    """Reads and writes reports."""

    def __init__(self, database: Database) -> None:
        self._reports = database[COLLECTION]

    async def owners(self, ids: Collection[str], session: Session) -> dict[str, str]:
        """The reviews of stored reports with these ids, by the id of the report."""
        if not ids:
            return {}
        found = self._reports.find({"_id": {"$in": list(ids)}}, {"reviewId": 1}, session=session)
        return {document["_id"]: with_stand_ins(REPORT, document)["reviewId"] async for document in found}

    async def open_among(self, ids: Collection[str], session: Session) -> set[str]:
        """The ids among these whose reports are open."""
        if not ids:
            return set()
        found = self._reports.find({"_id": {"$in": list(ids)}, **_OPEN}, {"_id": 1}, session=session)
        return {document["_id"] async for document in found}

    async def add(self, reports: Iterable[Report], session: Session) -> None:
        """Store new reports."""
        if documents := [_document(report) for report in reports]:
            await self._reports.insert_many(documents, ordered=False, session=session)

    async def settle_as_imported(self, reports: Iterable[Report], session: Session) -> None:
        """Settle these reports, which are open, as they are settled; nothing else of them is written."""
        writes = [UpdateOne({"_id": each.id}, _settled(each.settled)) for each in reports if each.settled]
        await write_all(self._reports, writes, session)

    async def settle(self, decisions: Mapping[str, Moderation], session: Session) -> None:
        """Settle the open reports about these reviews, each by its decision."""
        writes = [UpdateMany({"reviewId": id, **_OPEN}, _settled(each)) for id, each in decisions.items()]
        await write_all(self._reports, writes, session)

    async def settle_some(self, review_id: str, decision: Moderation, before: datetime, session: Session) -> int:
        """Settle open reports about a review that came by that moment, MOST_AT_ONCE at most; returns their number."""
        waiting = {"reviewId": review_id, **_OPEN, "at": {"$lte": before}}
        found = self._reports.find(waiting, {"_id": 1}, session=session).limit(MOST_AT_ONCE)
        ids = [document["_id"] async for document in found]
        await self._reports.update_many({"_id": {"$in": ids}}, _settled(decision), session=session)
        return len(ids)

    async def page(self, review_id: str, skip: int, take: int) -> list[Report]:
        """One page of the reports about a review, newest first."""
        if take == 0:
            return []
        found = self._reports.find({"reviewId": review_id}).sort(_NEWEST).skip(skip).limit(take)
        return [report_from(document) async for document in found]

    async def count(self, review_id: str) -> int:
        """The number of reports about a review."""
        return await self._reports.count_documents({"reviewId": review_id})

    async def remove_of(self, review_ids: Collection[str]) -> None:
        """Remove the reports about deleted reviews."""
        if review_ids:
            await self._reports.delete_many({"reviewId": {"$in": list(review_ids)}})

    async def of_person(self, user_id: str, addresses: Collection[str]) -> list[Report]:
        """The reports of a person, by their id or one of their mail addresses in any letter case, newest first. MongoDB
        scans all reports, for few callers."""
        theirs = _person_filter(user_id, addresses)
        found = [report_from(each) async for each in found_in_ranges(self._reports, TEXTS, theirs)]
        return sorted(found, key=attrgetter("at", "id"), reverse=True)

    async def forget_person(self, user_id: str, addresses: Collection[str]) -> int:
        """Remove a person and their words from their reports, which keep reason and time; returns their number."""
        erased = {"explanation": "", "name": None, "email": None, "emailKey": None, "userId": None}
        return await update_in_ranges(self._reports, TEXTS, _person_filter(user_id, addresses), {"$set": erased})


async def reported_reviews(database: Database) -> list[str]:
    """The ids of all reviews with open reports."""
    grouped: list[Document] = [{"$match": _OPEN}, {"$group": {"_id": "$reviewId"}}]
    found = await database[COLLECTION].aggregate(grouped, hint=dict(_BY_REVIEW))
    return [document["_id"] async for document in found]


def _person_filter(user_id: str, addresses: Collection[str]) -> Document:
    return {"$or": [{"userId": user_id}, {"emailKey": {"$in": [each.casefold() for each in addresses]}}]}


def _document(report: Report) -> Document:
    return {
        "_id": report.id,
        "reviewId": report.review_id,
        "reason": report.reason.value,
        "explanation": report.explanation,
        "at": report.at,
        "name": report.name,
        "email": report.email,
        "emailKey": report.email and report.email.casefold(),
        "userId": report.user_id,
        **({"settled": _settlement_fields(report.settled)} if report.settled else _OPEN),
    }


def _settled(decision: Moderation | Settlement) -> Document:
    """The update that settles an open report."""
    return {"$unset": {"isOpen": ""}, "$set": {"settled": _settlement_fields(decision)}}


def _settlement_fields(decision: Moderation | Settlement) -> Document:
    return {"action": decision.action.value, "moderator": decision.moderator, "at": decision.at}


def report_from(document: Document) -> Report:
    """The report in a document, with stand-ins for lost fields; a damaged one may seem open."""
    return read_for_display(REPORT, _report, document)


def _report(document: Document) -> Report:
    check_whole(REPORT, document)
    settled = document.get("settled")
    return Report(
        document["_id"],
        document["reviewId"],
        ReportReason(document["reason"]),
        document["explanation"],
        document["at"],
        document["name"],
        document["email"],
        document["userId"],
        settled and Settlement(ModerationAction(settled["action"]), settled["moderator"], settled["at"]),
    )
