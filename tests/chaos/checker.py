"""Compares what the service shows with what the model expects.

Each module `check_*` compares one kind of object. They read the HTTP API, the published topics and the schedulers'
logs; in the database the stored reviews (for the topic of reviews), the audit log, the outcomes of commands, and what
must not be left behind.
"""

import asyncio
from dataclasses import dataclass

from tests.chaos.check_dead_letters import wrong_dead_letters
from tests.chaos.check_events import wrong_events
from tests.chaos.check_mails import wrong_mails
from tests.chaos.check_outcomes import wrong_commands
from tests.chaos.check_ratings import wrong_ratings, wrong_summaries
from tests.chaos.check_returns import wrong_returns
from tests.chaos.check_reviews import wrong_flags, wrong_pasts, wrong_reviews, wrong_status_lists
from tests.chaos.check_reviews_topic import wrong_topic
from tests.chaos.check_schedulers import wrong_schedulers
from tests.chaos.clients import Http
from tests.chaos.difference import Difference
from tests.chaos.fleet import Fleet
from tests.chaos.images import wrong_images
from tests.chaos.leftovers import leftovers
from tests.chaos.model import Model
from tests.support.service import FLOW

TIMEOUT_S = 90.0
"""Seconds that a difference may last. A dead process is replaced within 20 s, on a busy machine later."""


@dataclass(frozen=True)
class Checker:
    """Compares every kind of object."""

    http: Http
    fleet: Fleet
    model: Model

    async def differences(self) -> list[Difference]:
        """Wait until all published records are consumed, then compare until nothing differs or `TIMEOUT_S` is over.

        Returns the differences of the last comparison, and topics that are still not consumed.
        """
        loop = asyncio.get_running_loop()
        unconsumed = await self.unconsumed()
        end = loop.time() + TIMEOUT_S
        while True:
            found = await self.compare()
            if not found or loop.time() > end:
                return [*unconsumed, *found]
            await asyncio.sleep(2)  # effects may still be on their way
            # Consumed records may have led to further records.
            unconsumed = await self.unconsumed(TIMEOUT_S)

    async def compare(self) -> list[Difference]:
        """Compare everything once."""
        http, service, model, is_mixed = self.http, self.fleet.service, self.model, self.fleet.before is not None
        return [
            *await wrong_reviews(http, model),
            *await wrong_ratings(http, model),
            *await wrong_returns(http, model),
            *await wrong_mails(service, model),
            *await wrong_dead_letters(service, model),
            *await wrong_events(http, service, model, is_mixed=is_mixed),
            *wrong_schedulers(self.fleet, model),
            *await wrong_topic(service),
            *await wrong_flags(http, model),
            *await wrong_pasts(http, model),
            *await wrong_status_lists(http, model),
            *await wrong_summaries(http, model),
            *(Difference(*each) for each in await leftovers(service, model)),
            *(Difference("wrong", *each) for each in await wrong_images(http, model)),
            *await wrong_commands(http, service, model, is_mixed=is_mixed),
        ]

    async def unconsumed(self, timeout_s: float = 4 * TIMEOUT_S) -> list[Difference]:
        """Wait until all records are consumed, at most `timeout_s`. Returns a difference for each topic that isn't."""
        end, found = asyncio.get_running_loop().time() + timeout_s, list[Difference]()
        for topic in FLOW:
            while lag := await self.fleet.service.lag(topic):
                if asyncio.get_running_loop().time() > end:
                    found.append(Difference("lost", topic, f"{lag} records not consumed"))
                    break
                await asyncio.sleep(0.2)  # polling interval
        return found
