"""Consume facts of objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Final

import structlog

from consumers.services import Services
from domain.objects import NAME, ObjectFacts
from messaging.decoding import Received, first_published
from messaging.objects import ObjectUpdate
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

_FUTURE_S: Final = 60
"""Seconds by which clocks may differ; by more, one of them is wrong."""


@dataclass(frozen=True, slots=True)
class ObjectConsumer:
    """Keeps the newest facts of each object.

    Delivered at least once, possibly late or out of order: each fact is taken from its newest record. A replayed
    record is as old as the one that became a dead letter. A record from the future is the newest until that time, as
    each delivery has to have the same effect; it is logged.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ObjectUpdate]]) -> None:
        """Store a batch."""
        await self.services.transactions.run(partial(_store, batch))
        _report_future(batch)
        named = {received.message.object_key.entity for received in batch if NAME in received.message.facts()}
        await self.services.rated_objects.forget_names(named)


def _report_future(batch: Sequence[Received[ObjectUpdate]]) -> None:
    now = time()
    ahead = [(first_published(received.record) / 1000 - now, received.position) for received in batch]
    future = [each for each in ahead if each[0] > _FUTURE_S]
    if future:
        seconds, furthest = max(future)
        log.warning(
            "facts of objects are from the future, and hide newer facts until then: a sender's clock is wrong",
            partition=furthest.partition,
            offset=furthest.offset,
            seconds_ahead=round(seconds),
            records=len(future),
        )


async def _store(batch: Sequence[Received[ObjectUpdate]], work: UnitOfWork) -> None:
    objects = work.repositories.objects
    known = await objects.of_keys({received.message.object_key for received in batch}, work.session)
    present = dict(known)
    for received in batch:
        object_key = received.message.object_key
        before = present.get(object_key, ObjectFacts())
        position = received.position._replace(timestamp=first_published(received.record))
        present[object_key] = before.after(received.message.facts(), position)
    await objects.save(
        {p: each for p, each in present.items() if each is not known.get(p) and each.facts}, work.session
    )
