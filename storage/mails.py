"""Mails on their way: each once by its id, with the state of its sending."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import uuid4

from pymongo import ASCENDING, IndexModel, ReturnDocument, UpdateOne

from domain.delivery import RecordPosition
from domain.timestamps import from_milliseconds
from messaging.decoding import PlainRecord, RawRecord, position_of
from storage.database import Database, Document, Session
from storage.moments import server_time
from storage.queries import expiry_index, update_of, write_all
from storage.shapes import (
    ARRAY,
    BINARY,
    DATE,
    OBJECT,
    READ_ERRORS,
    STRING,
    WHOLE,
    Shape,
    check_whole,
    irrecoverable_field,
    log_damage,
)

COLLECTION: Final = "mails"
_ERASED: Final = "erased"

_OWED: Final = Shape(
    COLLECTION,
    {
        "record": irrecoverable_field(OBJECT, None),
        **dict.fromkeys(("acceptedAt", "firstAttemptAt"), irrecoverable_field(DATE, None)),
        "attempts": irrecoverable_field(WHOLE, 0),
    },
)
_RECORD: Final = Shape(
    COLLECTION,
    {
        "topic": irrecoverable_field(STRING, None),
        **dict.fromkeys(("source", "headers"), irrecoverable_field(ARRAY, None)),
        **dict.fromkeys(("key", "value"), irrecoverable_field((*BINARY, "null"), None)),
    },
)


class MailState(StrEnum):
    """The state of a mail."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    REJECTED = "rejected"


def indexes(remember_days: int) -> list[IndexModel]:
    """Indexes of the collection. Ids of finished mails are kept for this many days: longer than Kafka keeps the
    commands that would send them again."""
    return [
        IndexModel([("dueAt", ASCENDING)], name="due", sparse=True),
        expiry_index("doneAt", remember_days),
    ]


@dataclass(frozen=True, slots=True)
class ClaimedMail:
    """A mail that this process has claimed for some time."""

    id: str
    record: PlainRecord
    """The record as received, kept until the mail is finished."""
    accepted_at: datetime
    first_attempt_at: datetime
    attempts: int
    """The number of attempts, including this one."""
    token: str
    """The proof of the claim."""


class MailRepository:
    """Keeps mails until they are sent, and their ids longer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mails = database[COLLECTION]

    async def now(self) -> datetime:
        """The server's time. Claims by the clock of a mailer that is minutes off would be no claims for the others."""
        return await server_time(self._database)

    async def accept(self, records: Mapping[str, RawRecord], now: datetime) -> None:
        """Store mails by their ids; known ones stay as they are.

        A rejected mail is retried if its record is younger than the rejection: it was sent again. Not so if its person
        was erased meanwhile.
        """
        waiting = {id: _waiting_fields(record, now) for id, record in records.items()}
        new = [UpdateOne({"_id": id}, {"$setOnInsert": fields}, upsert=True) for id, fields in waiting.items()]
        await write_all(self._mails, new)
        rejected: Document = {"state": MailState.REJECTED.value, "code": {"$ne": _ERASED}}
        unset = {"doneAt": "", "code": "", "firstAttemptAt": ""}
        again = [
            UpdateOne(
                {"_id": id, **rejected, "doneAt": {"$lt": from_milliseconds(records[id].timestamp)}},
                {"$set": fields, "$unset": unset},
            )
            for id, fields in waiting.items()
        ]
        await write_all(self._mails, again)

    async def block(self, ids: Collection[str], at: datetime) -> None:
        """Keep mails to erased people from being sent: known ones as `give_up` does, others by storing their ids."""
        if ids:
            done = _done_update(MailState.REJECTED, at, _ERASED)["$set"]
            await write_all(self._mails, [UpdateOne({"_id": id}, {"$setOnInsert": done}, upsert=True) for id in ids])
            await self.give_up(ids, at)

    async def claim(self, now: datetime, until: datetime, *, again: bool = True) -> ClaimedMail | None:
        """Claim the mail that has been due longest, until that moment; None if nothing is due.

        A mail whose claim has expired is due `again`: its mailer has died, or has lost the database. A damaged mail
        waits for its repair: it is claimed, too, and so looked at again when its claim expires.
        """
        while document := await self._claim(now, until, again=again):
            try:
                return _claimed(document)
            except READ_ERRORS as error:
                log_damage("a mail can't be read; it waits for its repair", id=str(document["_id"]), error=repr(error))
        return None

    async def _claim(self, now: datetime, until: datetime, *, again: bool) -> Document | None:
        claimed = {"dueAt": until, "state": MailState.SENDING.value, "claim": uuid4().hex}
        attempts = {"$cond": [{"$isNumber": "$attempts"}, {"$add": ["$attempts", 1]}, "$attempts"]}
        return await self._mails.find_one_and_update(
            {"dueAt": {"$lte": now}} | ({} if again else {"state": {"$ne": MailState.SENDING.value}}),
            # Not by `$inc`, which fails on a damaged number, for every claim after it.
            [{"$set": {**claimed, "attempts": attempts, "firstAttemptAt": {"$min": ["$firstAttemptAt", now]}}}],
            sort=[("dueAt", ASCENDING)],
            return_document=ReturnDocument.AFTER,
        )

    async def mark_sent(self, mail: ClaimedMail, at: datetime) -> None:
        """Record that a mail was sent, and keep only its id. This holds even if the claim has expired meanwhile."""
        await self._mails.update_one({"_id": mail.id}, _done_update(MailState.SENT, at))

    async def delay(self, mail: ClaimedMail, until: datetime, code: str, *, is_answered: bool = True) -> None:
        """Schedule the next attempt, because of `code`; nothing happens if the claim has expired.

        If no server answered, the next attempt counts as the first one.
        """
        unset = {"claim": ""} if is_answered else {"claim": "", "firstAttemptAt": ""}
        await self._mails.update_one(
            _claim_filter(mail),
            {"$set": {"dueAt": until, "state": MailState.WAITING.value, "code": code}, "$unset": unset},
        )

    async def give_up(self, ids: Collection[str], at: datetime) -> int:
        """Forget the content of these mails, and don't send those not sent yet; returns the number of the latter."""
        wanted = {"_id": {"$in": list(ids)}, "record": {"$exists": True}}
        result = await self._mails.update_many(wanted, _done_update(MailState.REJECTED, at, _ERASED))
        return result.modified_count

    async def reject(self, mail: ClaimedMail, at: datetime, code: str, session: Session) -> bool:
        """Reject a mail for good. Returns False if the claim has expired, and another mailer decides."""
        result = await self._mails.update_one(
            _claim_filter(mail), _done_update(MailState.REJECTED, at, code), session=session
        )
        return result.modified_count == 1


def _waiting_fields(record: RawRecord, now: datetime) -> Document:
    return {
        "state": MailState.WAITING.value,
        "dueAt": now,
        "acceptedAt": now,
        "attempts": 0,
        "record": {
            "topic": record.topic,
            "source": list(position_of(record)),
            "key": record.key,
            "value": record.value,
            "headers": [[name, None if value is None else bytes(value)] for name, value in record.headers],
        },
    }


def _claim_filter(mail: ClaimedMail) -> Document:
    return {"_id": mail.id, "claim": mail.token}


def _done_update(state: MailState, at: datetime, code: str | None = None) -> Document:
    removed = dict.fromkeys(("record", "dueAt", "claim"))
    return update_of({"state": state.value, "doneAt": at}, {"code": code, **removed})


def _claimed(document: Document) -> ClaimedMail:
    """The mail in a document. Raises one of READ_ERRORS."""
    check_whole(_OWED, document)
    record = document["record"]
    check_whole(_RECORD, record)
    source = RecordPosition(*record["source"])
    if not all(isinstance(each, int) for each in source):
        raise TypeError("the place of its record isn't three whole numbers")
    headers = [(name, content) for name, content in record["headers"]]
    if not all(isinstance(name, str) and isinstance(content, bytes | None) for name, content in headers):
        raise TypeError("a header of its record isn't a name with binary content")
    return ClaimedMail(
        id=document["_id"],
        record=PlainRecord(record["topic"], *source, record["key"], record["value"], headers),
        accepted_at=document["acceptedAt"],
        first_attempt_at=document["firstAttemptAt"],
        attempts=document["attempts"],
        token=document["claim"],
    )
