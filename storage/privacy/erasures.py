"""The record of erasures of people."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, UpdateOne

from domain.delivery import in_parts
from domain.privacy import erasure_mark
from messaging.dead_letters_replays import letter_id, moment_of, people_of
from messaging.decoding import RawRecord
from storage.database import Database
from storage.generated_keys import GeneratedKey
from storage.queries import expiry_index, write_all

ERASURES: Final = "erasures"
LETTERS: Final = "erasedLetters"

INDEXES: Final = [IndexModel([("mark", ASCENDING)], name="mark")]

_PAGE: Final = 1_000
_KEY: Final = "erasureKey"


def letter_indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection. Excluded letters are kept for this many days: longer than Kafka keeps them."""
    return [expiry_index("at", remember_days)]


class Erasures:
    """The record of who was erased when, by a mark of their id, and of the dead letters about them.

    New marks are made with the first configured key, else with one generated in the database. Marks made with any of
    the keys are recognised. Letters are identified by `letter_id`.
    """

    def __init__(self, database: Database, configured_keys: Sequence[bytes] = ()) -> None:
        self._erasures = database[ERASURES]
        self._letters = database[LETTERS]
        self._generated_key = GeneratedKey(database, _KEY)
        self._configured = list(configured_keys)

    async def begin(self, customer_id: str, at: datetime) -> ObjectId:
        """Record that a person is being erased: they count as erased from now on. Returns the id of the record."""
        key = self._configured[0] if self._configured else (await self._generated_key.get_or_create()).encode()
        mark = erasure_mark(customer_id, key)
        # A record that stays without counts is of an erasure that was interrupted.
        recorded = await self._erasures.insert_one({"mark": mark, "at": at, "counts": {}})
        return ObjectId(recorded.inserted_id)

    async def renew(self, erasure: ObjectId, at: datetime) -> None:
        """Record that the person counts as erased up to this moment."""
        await self._erasures.update_one({"_id": erasure}, {"$set": {"at": at}})

    async def complete(self, erasure: ObjectId, at: datetime, counts: Mapping[str, int]) -> None:
        """Record that nothing of a person from before this moment is left, and how much there was of each kind."""
        await self._erasures.update_one({"_id": erasure}, {"$set": {"at": at, "counts": dict(counts)}})

    async def latest(self, people: Collection[str]) -> dict[str, datetime]:
        """The time of the last erasure of each of these people who were erased."""
        if not people or not await self._erasures.find_one({}, {"_id": 1}):
            return {}
        keys = await self._keys()
        by_mark = {erasure_mark(person, key): person for person in people for key in keys}
        latest: dict[str, datetime] = {}
        for marks in in_parts(by_mark, _PAGE):
            async for document in self._erasures.find({"mark": {"$in": marks}}):
                person = by_mark[document["mark"]]
                latest[person] = max(document["at"], latest.get(person, document["at"]))
        return latest

    async def exclude(self, letters: Collection[str], at: datetime) -> None:
        """Exclude dead letters about an erased person from replays for good."""
        writes = [UpdateOne({"_id": id}, {"$set": {"at": at}}, upsert=True) for id in letters]
        await write_all(self._letters, writes)

    async def excluded(self, letters: Collection[str]) -> set[str]:
        """The ids among these of letters that were excluded."""
        return {document["_id"] async for document in self._letters.find({"_id": {"$in": list(letters)}})}

    async def replayable(self, letters: Sequence[RawRecord]) -> list[RawRecord]:
        """These dead letters, without those about people who were erased since the letter came."""
        excluded = await self.excluded([letter_id(letter) for letter in letters])
        letters = [letter for letter in letters if letter_id(letter) not in excluded]
        people = [people_of(letter) for letter in letters]
        erased = await self.latest(set().union(*people))
        return [
            letter
            for letter, about in zip(letters, people, strict=True)
            if not any(person in erased and moment_of(letter.timestamp) <= erased[person] for person in about)
        ]

    async def _keys(self) -> list[bytes]:
        """The configured keys, and the generated one if there is one."""
        generated = await self._generated_key.get()
        return [*self._configured, *([generated.encode()] if generated else [])]
