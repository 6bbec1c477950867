"""News for open queue pages, which every process reads from Kafka: new reviews, edits, reports, decisions of others,
and claims."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

import orjson
import structlog

from api.web.limits import Slots
from domain.permissions import Caller
from messaging.events import MODERATION_EVENTS
from messaging.kafka.tail import Tail
from messaging.review_claims import CLAIM_S
from messaging.server_errors import for_log
from messaging.topics import Topic

log = structlog.get_logger()
TOPICS: Final = (Topic.EVENTS, Topic.REVIEW_CLAIMS)
"""The topics that news is read from."""

MOST_CLAIMS: Final = 10_000
"""Maximum number of claims that a process keeps: more than there are moderators at work."""

MOST_STREAMS: Final = 500
"""Maximum number of open pages to which a process sends news."""

MOST_STREAMS_PER_CLIENT: Final = 20
_MOST_WAITING: Final = 1_000
_KINDS: Final = {
    "ReviewSubmitted": "new",
    "ReviewEdited": "edited",
    "ReviewReported": "reported",
    "ReviewClaimed": "claimed",
    **dict.fromkeys(MODERATION_EVENTS.values(), "decided"),
}
"""The kind of news by the type of a record."""

_TYPE: Final = "ce_type"


@dataclass(frozen=True, slots=True)
class News:
    """One event of a review."""

    kind: str
    """`new`, `edited`, `reported`, `decided` or `claimed`."""

    review_id: str
    store_id: str | None
    at: int
    """Milliseconds since 1970, by Kafka."""

    by: str | None = None
    desk: str | None = None
    status: str | None = None
    """The status set by an edit or a decision; None for a deletion, and an edit that kept the status."""

    reason_code: str | None = None
    """The reason code of a rejection."""


@dataclass(slots=True, eq=False)
class _Listener:
    """An open page. The stream of one that reads too slowly ends, and the page reconnects."""

    news: asyncio.Queue[News] = field(default_factory=lambda: asyncio.Queue(_MOST_WAITING))
    is_behind: bool = False


class _Claims:
    """The claims in force, oldest first: at most one per desk and one per review. Beyond MOST_CLAIMS the oldest are
    dropped."""

    def __init__(self) -> None:
        self._by_review: OrderedDict[str, tuple[News, float]] = OrderedDict()
        self._review_of: dict[tuple[str | None, str | None], str] = {}

    def take(self, claim: News) -> None:
        """Add the newest claim. It replaces the claim on its review, and that of its desk on another review."""
        who = (claim.by, claim.desk)
        self.drop(self._review_of.get(who))
        self.drop(claim.review_id)
        self._by_review[claim.review_id] = (claim, monotonic() + CLAIM_S)
        self._review_of[who] = claim.review_id
        self._forget_old()

    def drop(self, review_id: str | None) -> None:
        """Remove the claim on a review, if there is one."""
        held = self._by_review.pop(review_id, None) if review_id is not None else None
        if held is not None:
            del self._review_of[held[0].by, held[0].desk]

    def held(self) -> list[News]:
        """All claims in force."""
        self._forget_old()
        return [claim for claim, _ in self._by_review.values()]

    def _forget_old(self) -> None:
        now = monotonic()
        while self._by_review:
            id, (_, end) = next(iter(self._by_review.items()))
            if end > now and len(self._by_review) <= MOST_CLAIMS:
                return
            self.drop(id)


class QueueNews:
    """Passes news on to open pages. Reading from Kafka starts with the first page. A page's stream takes one of the
    `slots`."""

    def __init__(self, tail: Tail) -> None:
        self.slots = Slots(most=MOST_STREAMS, most_per_client=MOST_STREAMS_PER_CLIENT)
        self._tail = tail
        self._listeners: set[_Listener] = set()
        self._claims = _Claims()
        self._reading: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """Stop reading from Kafka."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def news(self, caller: Caller, pause_s: float) -> AsyncIterator[News | None]:
        """Yield the claims in force, then the news of this caller's stores; None after `pause_s` seconds without any,
        however much happens in other stores. Ends if the page doesn't keep up, or Kafka can't be read any more."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        with self._listening() as listener:
            for claim in self._claims.held():
                if caller.may_touch(claim.store_id):
                    yield claim
            yielded_at = monotonic()
            while not listener.is_behind:
                news, left_s = None, yielded_at + pause_s - monotonic()
                if left_s > 0:
                    with suppress(TimeoutError):
                        news = await asyncio.wait_for(listener.news.get(), left_s)
                if news is None or caller.may_touch(news.store_id):
                    yield news
                    yielded_at = monotonic()

    @contextmanager
    def _listening(self) -> Iterator[_Listener]:
        listener = _Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)

    async def _read(self) -> None:
        try:
            await self._pass_on()
        except Exception:
            log.exception("reading news of the queue failed; open pages will reload")
        finally:
            for listener in self._listeners:
                listener.is_behind = True

    async def _pass_on(self) -> None:
        begin = datetime.now(UTC)
        async for record in self._tail.records(begin - timedelta(seconds=CLAIM_S)):
            try:
                news = _news_in(record)
            except (ValueError, KeyError, TypeError) as error:
                log.warning("unreadable record in the topic of news", topic=record.topic, error=for_log(error))
                continue
            # Reading starts earlier for the claims alone: pages show the reviews of that time already.
            if news is not None and not (news.kind == "new" and news.at < begin.timestamp() * 1_000):
                self._deliver(news)

    def _deliver(self, news: News) -> None:
        if news.kind == "claimed":
            self._claims.take(news)
        elif news.kind == "decided":
            self._claims.drop(news.review_id)
        for listener in self._listeners:
            if listener.news.full():
                listener.is_behind = True
            else:
                listener.news.put_nowait(news)


def _news_in(record: Any) -> News | None:
    """The news in a record; None if it doesn't concern queues. Raises ValueError, KeyError or TypeError."""
    type = (dict(record.headers).get(_TYPE) or b"").decode().removeprefix("plaudit.")
    if record.value is None or type not in _KINDS:
        return None
    content = orjson.loads(record.value)
    news = News(_KINDS[type], str(content["reviewId"]), content["storeId"], record.timestamp)
    match news.kind:
        case "claimed":
            return replace(news, by=content["subject"], desk=content["desk"])
        case "decided":
            reason_code = content.get("reasonCode")
            return replace(news, by=content.get("moderator"), status=content["status"], reason_code=reason_code)
        case "edited" if content["statusAfter"] != content["statusBefore"]:
            return replace(news, status=content["statusAfter"])
    return news
