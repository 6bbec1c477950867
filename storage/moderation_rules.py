"""Moderation rules in the settings of a store, and the keys of texts that they need.

The keys are stored apart from the reviews, because each index of reviews slows down every approval.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pymongo import ASCENDING, IndexModel, ReplaceOne

from domain.moderation_rules import ModerationRule, RuleKind, RuleOutcome, text_keys
from domain.ratings import hundredths
from storage.database import Database, Document, Session
from storage.queries import insert_if_free, write_all
from storage.reviews.ids import identity_from, is_gone
from storage.reviews.shape import REVIEW

TEXTS: Final = "reviewTexts"

TEXT_INDEXES: Final = [IndexModel([("reviewId", ASCENDING)], name="review")]


def rule_from(document: Document) -> ModerationRule:
    """The rule in a document, whose fields have the names of the API."""
    below, above = document.get("below"), document.get("above")
    return ModerationRule(
        document["id"],
        RuleKind(document["kind"]),
        RuleOutcome(document["outcome"]),
        words=tuple(document.get("words") or ()),
        languages=tuple(document.get("languages") or ()),
        below=None if below is None else hundredths(below),
        above=None if above is None else hundredths(above),
        publish_after_hours=document.get("publishAfterHours"),
    )


class TextRepository:
    """Knows the first review with a text, by keys of texts, in stores that look for duplicates.

    A key is noted before its review is stored, so that of two concurrent reviews one is the first. A note counts only
    while its review has that text: an edit or a deletion makes room for another.
    """

    def __init__(self, database: Database) -> None:
        self._texts = database[TEXTS]
        self._reviews = database[REVIEW.collection]

    async def holders(self, wanted: Iterable[tuple[str, Collection[str]]]) -> dict[str, str]:
        """Note the keys of the texts of reviews, by review id; returns the review that is the first with each key."""
        first: dict[str, str] = {}
        for id, keys in wanted:
            for key in keys:
                first.setdefault(key, id)
        holders: dict[str, str] = {}
        # Until each key has a holder: a note may be removed, or taken over by another review, at any time.
        while missing := {key: id for key, id in first.items() if key not in holders}:
            noted = await self._note(missing)
            held_by_others = {key: holder for key, holder in noted.items() if holder != missing[key]}
            free = await self._freed_keys(held_by_others)
            taken = [
                ReplaceOne({"_id": key, "reviewId": held_by_others[key]}, {"reviewId": missing[key]}) for key in free
            ]
            await write_all(self._texts, taken)
            holders |= {key: holder for key, holder in noted.items() if key not in free} | await self.noted(free)
        return holders

    async def forget(self, review_ids: Collection[str], session: Session | None = None) -> None:
        """Forget the texts of deleted reviews."""
        await self._texts.delete_many({"reviewId": {"$in": list(review_ids)}}, session=session)

    async def _note(self, first: Mapping[str, str]) -> dict[str, str]:
        """Note keys that aren't noted yet; returns the holder of each key, except for keys freed meanwhile."""
        documents: list[Document] = [{"_id": key, "reviewId": id} for key, id in first.items()]
        taken = {documents[index]["_id"] for index in await insert_if_free(self._texts, documents)}
        return {key: id for key, id in first.items() if key not in taken} | await self.noted(taken)

    async def noted(self, keys: Collection[str]) -> dict[str, str]:
        """The review that was noted as the first with each of these keys; free keys are left out."""
        if not keys:
            return {}
        found = self._texts.find({"_id": {"$in": list(keys)}})
        return {document["_id"]: document["reviewId"] async for document in found}

    async def _freed_keys(self, holders: Mapping[str, str]) -> set[str]:
        """The keys whose holders have another text now, or are gone. A holder that isn't stored yet is on its way."""
        if not holders:
            return set()
        fields = dict.fromkeys(("goneAt", "review", "entityType", "entityId", "storeId", "userId"), 1)
        found = self._reviews.find({"_id": {"$in": sorted(set(holders.values()))}}, fields)
        known = {
            document["_id"]: () if is_gone(document) else text_keys(identity_from(document), document.get("review", ""))
            async for document in found
        }
        return {key for key, holder in holders.items() if key not in known.get(holder, (key,))}
