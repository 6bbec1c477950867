"""Consume mail commands: each becomes a mail, once by its id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from messaging.decoding import RawRecord, Received
from messaging.mails import MailCommand
from storage.mails import MailRepository


class MailConsumer:
    """Stores mail commands for the sender, which it wakes by `wake`.

    Delivered at least once; a repeat of an id changes nothing, unless the mail was rejected and sent again after
    that.
    """

    def __init__(self, mails: MailRepository, wake: Callable[[], None]) -> None:
        self._mails = mails
        self._wake = wake

    async def __call__(self, batch: Sequence[Received[MailCommand]]) -> None:
        """Store a batch."""
        first: dict[str, RawRecord] = {}
        for record, command in batch:
            first.setdefault(command.id, record)
        await self._mails.accept(first, datetime.now(UTC))
        self._wake()
