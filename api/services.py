"""The dependencies of the facade, built and closed by the composition root."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Depends, Request

from api.auth.authentication import Authenticator, Nobody
from api.counts import LargeCounts
from api.images_mark import ImageStoreCheck
from api.lookups import Lookups
from api.moderation_route import ModerationRoute
from api.recent_commands import RecentCommands
from api.store_counts import StoreCounts
from api.waits import Waits
from api.web.limits import Slots
from api.web.pages import PageBudget
from api.web.process_limits import Limits
from domain.delivery import OutgoingMessage
from domain.entity_types import SAMPLE, EntityTypes
from messaging.envelope import Envelope
from messaging.kafka.checks import KafkaExamination
from messaging.kafka.dead_letters import DeadLetterTopics
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from storage.database import Database
from storage.images.files import ImageFiles
from storage.repositories import Repositories

_OPEN: Final = Nobody()
_LIMITS: Final = Limits()
SOURCE: Final = "/plaudit/api"


class Services(Repositories):
    """The repositories, the image store, the Kafka publisher, and the limits of one facade. `pages` is the budget for
    what MongoDB returns."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        topics: TopicNames,
        *,
        version: str,
        image_files: ImageFiles,
        entity_types: EntityTypes = SAMPLE,
        lag: ConsumerLag | None = None,
        authenticator: Authenticator = _OPEN,
        limits: Limits = _LIMITS,
        token_keys: Sequence[bytes] = (),
        letters: DeadLetterTopics | None = None,
        examination: KafkaExamination | None = None,
        erasure_keys: Sequence[bytes] = (),
        reminders_need_email: bool = False,
    ) -> None:
        super().__init__(database, entity_types.purchase_item_fields, token_keys, erasure_keys)
        self.database = database
        self.lookups = Lookups(self.ratings, self.stores, self.objects, self.reviews)
        self.store_counts = StoreCounts(database)
        self.waits = Waits(self.outcomes.answers, most=limits.max_waits, most_per_client=limits.max_waits_per_client)
        self.pages = PageBudget(limits.max_pages_bytes)
        self.feeds = Slots(most=limits.max_feeds, most_per_client=limits.max_feeds_per_client)
        self.image_files = image_files
        self.image_store_check = ImageStoreCheck(self.image_store_mark, image_files)
        self.publisher = publisher
        self.envelope = Envelope(SOURCE)
        self.topics = topics
        self.version = version
        self.limits = limits
        self.entity_types = entity_types
        self.lag = lag
        self.moderation_route = ModerationRoute(lag, publisher.partition_counts)
        self.letters = letters
        self.reminders_need_email = reminders_need_email
        self.examination = examination
        self.authenticator = authenticator
        self.large_counts = LargeCounts()
        self.recent_commands = RecentCommands()
        # One trial at a time: a body full of characters that NFKC expands takes seconds.
        self.rule_trials = asyncio.Semaphore(1)

    def message(self, topic: Topic, key: str, kind: str, value: object) -> OutgoingMessage:
        """A message of this API to a topic; `kind` is its CloudEvents type."""
        return self.envelope.wrap(self.topics.name(topic), key, kind, value)


async def services_of(request: Request) -> Services:
    """The services of the application that serves the request."""
    services: Services = request.app.state.services
    return services


Injected = Annotated[Services, Depends(services_of)]
"""Services as a parameter of an endpoint."""
