"""Consume mail commands: each id becomes one mail."""

from collections.abc import Callable, Sequence
from datetime import datetime

from messaging.decoding import RawRecord, Received
from messaging.envelope import wrapped_at
from messaging.mails import MailCommand
from storage.leases import CLOCK_SKEW
from storage.mails import MailRepository
from storage.privacy.erasures import Erasures


class MailConsumer:
    """Stores mail commands for the sender, which it wakes by `wake`.

    Delivered at least once; a repeated id changes nothing, unless the mail was rejected and its command sent again
    after that. Mails to people who have been erased since are not accepted, however late they are read. Erasures are
    looked up twice: one may give up stored mails just before this batch is stored.
    """

    def __init__(self, mails: MailRepository, erasures: Erasures, wake: Callable[[], None]) -> None:
        self._mails = mails
        self._erasures = erasures
        self._wake = wake

    async def __call__(self, batch: Sequence[Received[MailCommand]]) -> None:
        """Store a batch."""
        newest: dict[str, RawRecord] = {}
        for received in sorted(batch, key=lambda received: received.at):
            newest[received.message.id] = received.record
        erased = await self._erased_ids(batch)
        wanted = {id: record for id, record in newest.items() if id not in erased}
        now = await self._mails.now()
        await self._mails.accept(wanted, now)
        await self._mails.block(erased | await self._erased_ids(batch), now)
        self._wake()

    async def _erased_ids(self, mails: Sequence[Received[MailCommand]]) -> set[str]:
        """The ids of mails whose customers were erased after one of the mail's records was written, or less than
        CLOCK_SKEW before, as the scheduler's clock may be ahead."""
        people = [received.message.customer_id or "" for received in mails]
        forgotten = await self._erasures.latest(set(people) - {""})
        return {
            received.message.id
            for received, person in zip(mails, people, strict=True)
            if person in forgotten and _written_at(received) - CLOCK_SKEW <= forgotten[person]
        }


def _written_at(received: Received[MailCommand]) -> datetime:
    """The time at which a mail was written: its record is later if it has been in the sender's outbox for a while."""
    return min(received.at, wrapped_at(received.record.headers) or received.at)
