"""Votes on reviews: the last one of each voter, with its record. A withdrawn vote leaves its mark for some time."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

from bson import MaxKey, MinKey
from pymongo import ASCENDING, DeleteMany, IndexModel, ReplaceOne

from domain.delivery import RecordPosition
from domain.feedback import Vote, VoteKey
from storage.database import Database, Document, Session
from storage.queries import expiry_index, write_all
from storage.shapes import ARRAY, BOOL_OR_NULL, Shape, check_whole, default_field, irrecoverable_field, read_for_display

COLLECTION: Final = "votes"

VOTE: Final = Shape(
    COLLECTION,
    {"helpful": irrecoverable_field(BOOL_OR_NULL, None), "at": default_field(ARRAY, list(RecordPosition.of_time(0)))},
)
"""A vote without its value counts as withdrawn, one without its record as older than any."""


def indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection. Withdrawn votes are kept for this many days: longer than Kafka keeps the records."""
    return [
        IndexModel([("_id.userId", ASCENDING)], name="voter"),
        expiry_index("goneAt", remember_days, sparse=True),
    ]


class VoteRepository:
    """Reads and writes votes. The counters of their reviews are updated in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._votes = database[COLLECTION]

    async def load(self, keys: Collection[VoteKey], session: Session) -> dict[VoteKey, Vote]:
        """These votes; those that were never cast are left out."""
        if not keys:
            return {}
        found = self._votes.find({"_id": {"$in": [_id(key) for key in keys]}}, session=session)
        return {_key(document): vote_from(document) async for document in found}

    async def save(self, votes: Mapping[VoteKey, Vote], stored: Collection[VoteKey], session: Session) -> None:
        """Write votes. The transaction has read the `stored` ones; the expiry of withdrawn ones starts now."""
        now = datetime.now(UTC)
        documents = {key: {"_id": _id(key), **_document(vote, now)} for key, vote in votes.items()}
        changed = [ReplaceOne({"_id": _id(key)}, documents[key]) for key in votes.keys() & stored]
        await write_all(self._votes, changed, session)
        # MongoDB would take several times as long for upserts. Of two transactions that insert a vote, one is repeated.
        if new := [document for key, document in documents.items() if key not in stored]:
            await self._votes.insert_many(new, ordered=False, session=session)

    async def remove_of(self, review_ids: Collection[str]) -> None:
        """Remove the votes on deleted reviews."""
        await write_all(self._votes, [DeleteMany(on_reviews(id, id)) for id in review_ids])

    async def of_voter(
        self, user_id: str, limit: int = 0, session: Session | None = None
    ) -> list[tuple[VoteKey, Vote]]:
        """The votes of a voter, including withdrawn ones; at most `limit`, 0 for all."""
        found = self._votes.find({"_id.userId": user_id}, session=session).limit(limit)
        return [(_key(document), vote_from(document)) async for document in found]

    async def remove(self, keys: Collection[VoteKey], session: Session) -> None:
        """Remove votes and their marks."""
        await self._votes.delete_many({"_id": {"$in": [_id(key) for key in keys]}}, session=session)


def on_reviews(first: str, last: str) -> Document:
    """The condition for votes on the reviews in this range of ids. MongoDB compares texts by their UTF-8 bytes, which
    is the order of their code points."""
    return {"_id": {"$gte": {"reviewId": first, "userId": MinKey()}, "$lte": {"reviewId": last, "userId": MaxKey()}}}


def _id(key: VoteKey) -> Document:
    return {"reviewId": key.review_id, "userId": key.user_id}


def _key(document: Document) -> VoteKey:
    return VoteKey(document["_id"]["reviewId"], document["_id"]["userId"])


def vote_from(document: Document) -> Vote:
    """The vote in a document, with stand-ins for lost fields."""
    return read_for_display(VOTE, _vote, document)


def _vote(document: Document) -> Vote:
    check_whole(VOTE, document)
    return Vote(document["helpful"], RecordPosition(*document["at"]))


def _document(vote: Vote, now: datetime) -> Document:
    document: Document = {"helpful": vote.helpful, "at": list(vote.position)}
    return document if vote.helpful is not None else {**document, "goneAt": now}
