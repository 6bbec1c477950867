"""Planned approvals of reviews that moderation rules hold or flag for their few stars alone.

They are stored apart from the reviews, because each index of reviews slows down every approval.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.delivery import Seen
from domain.planned_approvals import PlannedApproval
from storage.database import Database, Document, Session
from storage.queries import write_all
from storage.reviews.repository import COLLECTION as REVIEWS
from storage.seen import seen_document, seen_from
from storage.shapes import all_readable

COLLECTION: Final = "publications"
INDEXES: Final = [IndexModel([("at", ASCENDING)], name="due")]


class PlannedApprovalRepository:
    """Keeps the planned approvals, one for each review, with the marks that the review has at that time.

    Decisions remove a plan. Those by 0.1.0 left it, and only moved the review's marks.
    """

    def __init__(self, database: Database) -> None:
        self._plans = database[COLLECTION]
        self._reviews = database[REVIEWS]

    async def plan(self, planned: Mapping[str, PlannedApproval | None], session: Session) -> set[str]:
        """Plan the approvals of reviews anew, by id; None removes a plan. Returns the ids of former plans."""
        if not planned:
            return set()
        found = self._plans.find({"_id": {"$in": list(planned)}}, {"_id": 1}, session=session)
        if former := {document["_id"] async for document in found}:
            await self._plans.delete_many({"_id": {"$in": list(former)}}, session=session)
        await self._insert({id: each for id, each in planned.items() if each}, session)
        return former

    async def _insert(self, wanted: Mapping[str, PlannedApproval], session: Session) -> None:
        if not wanted:
            return
        found = self._reviews.find({"_id": {"$in": list(wanted)}}, {"seen": 1}, session=session)
        marks = {document["_id"]: document.get("seen") async for document in found}
        documents = [
            {"_id": id, "at": plan.at, "rule": plan.rule, "seen": marks.get(id)} for id, plan in wanted.items()
        ]
        await self._plans.insert_many(documents, session=session)

    async def keep(self, moved: Mapping[str, tuple[Seen, Seen]], session: Session) -> None:
        """Keep the plans of reviews whose marks have moved, from the first to the second, without a decision."""
        writes = [
            UpdateOne({"_id": id, "seen": seen_document(before) or None}, {"$set": {"seen": seen_document(after)}})
            for id, (before, after) in moved.items()
        ]
        await write_all(self._plans, writes, session)

    async def due(self, now: datetime, limit: int, except_reviews: Collection[str] = ()) -> list[PlannedApproval]:
        """At most `limit` plans whose time has come, oldest first, except for those of `except_reviews`."""
        wanted: Document = {"at": {"$lte": now}}
        if except_reviews:
            wanted["_id"] = {"$nin": list(except_reviews)}
        async with self._plans.find(wanted, batch_size=limit).sort("at") as found:
            return await all_readable(found, _plan, "a planned approval can't be read", limit)

    async def take(self, due: Collection[PlannedApproval], session: Session) -> list[PlannedApproval]:
        """Remove these plans, except for those made anew meanwhile; returns those whose review still has the same
        marks."""
        found = self._plans.find({"_id": {"$in": [each.review_id for each in due]}}, session=session)
        plans = {document["_id"]: document async for document in found}
        taken = [each for each in due if plans.get(each.review_id, {}).get("at") == each.at]
        await self._plans.delete_many({"_id": {"$in": [each.review_id for each in taken]}}, session=session)
        reviews = self._reviews.find({"_id": {"$in": list(plans)}}, {"seen": 1}, session=session)
        marks = {document["_id"]: seen_from(document.get("seen")) async for document in reviews}
        return [each for each in taken if marks.get(each.review_id) == seen_from(plans[each.review_id].get("seen"))]


def _plan(document: Document) -> PlannedApproval:
    """The plan in a document. Raises one of READ_ERRORS."""
    seen_from(document.get("seen"))
    if not isinstance(document["rule"], str) or not isinstance(document["at"], datetime):
        raise TypeError("its rule or its time has the wrong type")
    return PlannedApproval(document["_id"], document["at"], document["rule"])
