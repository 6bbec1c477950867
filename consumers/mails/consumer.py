"""Mail commands become mails, each once by its id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from consumers.mails.message import mail_command
from messaging.dead_letters import dead_letter_message
from messaging.decoding import RawRecord, decoded
from messaging.kafka.publisher import Publisher
from storage.mails import MailRepository, StoredRecord


class MailConsumer:
    """Takes in mail commands for the sender, which it wakes by `wake`.

    Delivered at least once; a repeat of an id changes nothing, unless the mail was rejected and sent again after
    that. What can't be a mail is a dead letter.
    """

    def __init__(self, mails: MailRepository, publisher: Publisher, wake: Callable[[], None]) -> None:
        self._mails = mails
        self._publisher = publisher
        self._wake = wake

    async def __call__(self, records: Sequence[RawRecord]) -> None:
        """Take in a batch."""
        good, bad = decoded(records, mail_command)
        await self._publisher.publish([dead_letter_message(letter) for letter in bad])
        first: dict[str, StoredRecord] = {}
        for record, command in good:
            first.setdefault(command.id, _stored(record))
        await self._mails.accept(first, datetime.now(UTC))
        if first:
            self._wake()


def _stored(record: RawRecord) -> StoredRecord:
    return StoredRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple((name, None if value is None else bytes(value)) for name, value in record.headers),
    )
