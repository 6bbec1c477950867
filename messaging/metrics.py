"""All metrics of all processes. Labels have few values, and contain neither ids nor personal data.

A process exposes all of these names; one that it doesn't measure has no samples, or UNKNOWN. `topic` is a topic's name
without the prefix, also for its dead letters.
"""

import math
import platform
from collections import Counter as Count
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from domain.delivery import OutgoingMessage
from messaging.kafka.connection import WrongClockError, is_broker_away
from messaging.server_errors import for_log
from messaging.topics import DEAD_LETTER_SUFFIX, Topic

disable_created_metrics()  # type: ignore[no-untyped-call]

log = structlog.get_logger()

PREFIX: Final = "plaudit_"
REGISTRY: Final = CollectorRegistry()
UNKNOWN: Final = math.nan
"""The value of an unmeasured metric: PromQL's `max` prefers any other value, and no alert fires for it."""

_NAME_LENGTH: Final = 64
_MAX_LOGGED_NAMES: Final = 1_000
_LOGGED_NAMES: Final[set[tuple[str, str]]] = set()
_FAST_BUCKETS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


def _counter(name: str, description: str, *labels: str) -> Counter:
    return Counter(PREFIX + name, description, labels, registry=REGISTRY)


def _gauge(name: str, description: str, *labels: str) -> Gauge:
    return Gauge(PREFIX + name, description, labels, registry=REGISTRY)


def _measured_gauge(name: str, description: str) -> Gauge:
    """A gauge without labels, UNKNOWN until it is set: prometheus_client starts at 0."""
    gauge = _gauge(name, description)
    gauge.set(UNKNOWN)
    return gauge


def _histogram(name: str, description: str, *labels: str, buckets: Sequence[float]) -> Histogram:
    return Histogram(PREFIX + name, description, labels, registry=REGISTRY, buckets=buckets)


BUILD: Final = _gauge(
    "build_info", "Always 1; the labels name the version that runs here", "version", "python", "process"
)

TASKS: Final = _gauge("tasks", "Unfinished asyncio tasks")

HTTP_REQUESTS: Final = _counter("http_requests", "HTTP requests answered", "method", "route", "status")
HTTP_SECONDS: Final = _histogram(
    "http_request_seconds",
    "Seconds to answer a request, including waits for outcomes of commands",
    "method",
    "route",
    buckets=(*_FAST_BUCKETS_S, 30),
)
HTTP_RESPONSE_SECONDS: Final = _histogram(
    "http_response_seconds",
    "Seconds from the end of a request to the start of its response, without waits for outcomes, 5xx and health checks",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)

CONSUMED: Final = _counter("consumed_records", "Records that were applied or became dead letters", "topic")
BATCH_RECORDS: Final = _histogram(
    "batch_records", "Records in a batch", "topic", buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)
)
BATCH_SECONDS: Final = _histogram(
    "batch_seconds",
    "Seconds to process a batch, including waits for MongoDB or Kafka",
    "topic",
    buckets=(*_FAST_BUCKETS_S, 60),
)
PUBLISHED: Final = _counter("published_messages", "Messages acknowledged by Kafka, except dead letters", "topic")
DEAD_LETTERS: Final = _counter("dead_letters", "Dead letters acknowledged by Kafka", "topic", "code")
MISSED: Final = _counter(
    "missed_records",
    "Records lost because they were deleted from a topic before its consumer group had read them",
    "topic",
)
RETRIES: Final = _counter(
    "retries",
    "Waits for an unavailable server: `where` is a topic, a task or `start`, `what` is mongodb, kafka, images or smtp",
    "where",
    "what",
)

CONSUMER_LAG: Final = _gauge(
    "consumer_lag_records",
    "Records not yet committed by the consumer group of a topic; exported by the API, whether or not a worker runs",
    "topic",
    "partition",
)
CONSUMER_LAG_AGE: Final = _gauge(
    "consumer_lag_seconds",
    "Seconds that the oldest record not yet committed has waited, 0 without a backlog; exported by the API",
    "topic",
    "partition",
)
CONSUMER_STANDSTILL: Final = _gauge(
    "consumer_standstill_seconds",
    "Seconds without progress of a partition with a backlog; exported by the API, only while there is a backlog",
    "topic",
    "partition",
)
PARKED: Final = _gauge(
    "parked_commands",
    "Commands that wait for the review, return or order that they refer to; exported by the API",
    "kind",
)
PARKED_AGE: Final = _gauge(
    "parked_age_seconds",
    "Seconds that the oldest parked command has waited, 0 without one; exported by the API",
    "kind",
)
OUTBOX: Final = _measured_gauge(
    "outbox_documents", "Batches of messages in the outbox, not yet published; exported by the API"
)
OUTBOX_AGE: Final = _measured_gauge(
    "outbox_age_seconds", "Age in seconds of the oldest batch in the outbox, 0 without one; exported by the API"
)
MAILS_OWED: Final = _measured_gauge("mails_owed", "Mails to be sent, now or later; exported by the API")
MAILS_OVERDUE: Final = _measured_gauge(
    "mails_overdue_seconds", "Seconds that the first unsent mail has been due, 0 if none is; exported by the API"
)
REMINDERS_RUN: Final = _measured_gauge(
    "reminders_last_run_timestamp_seconds", "Unix time of the last finished run of reminders; exported by the API"
)
REMINDERS_OVERDUE: Final = _measured_gauge(
    "reminders_overdue_seconds",
    "Seconds that a scheduled run of reminders has been due, 0 if none is; exported by the API",
)
REVIEWS_TOPIC_AGE: Final = _measured_gauge(
    "reviews_topic_age_seconds",
    "Age in seconds of the state in the topic of reviews; exported by the API, whether or not a worker runs",
)
REVIEWS_MISSING: Final = _measured_gauge(
    "reviews_missing",
    "Reviews in that topic that MongoDB lacks, 0 unless it was put back to an earlier state; exported by the API",
)
STATE_KNOWN: Final = _gauge(
    "state_known",
    "1 if the API could read the lag (kafka) or the state in the database (mongodb), else 0",
    "what",
)
SERVER_AWAY: Final = _gauge(
    "server_away",
    "1 if that is 0 because the server is unavailable or rejects the API, 0 if Kafka denies only the question",
    "what",
)

IMAGES: Final = _counter("images", "Uploads processed by a worker: ready, or the code of the refusal", "outcome")
IMAGE_SECONDS: Final = _histogram(
    "image_seconds", "Seconds to rebuild an image from its pixels", buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
)
SUBMISSIONS: Final = _counter(
    "submissions",
    "Submitted reviews: stored, edited, repeated, or the code of the refusal, by the API or by a worker",
    "outcome",
)
RULINGS: Final = _counter("rulings", "Reviews that moderation rules approved, held or flagged", "outcome")
VERDICTS: Final = _counter("verdicts", "Verdicts of classifiers on reviews", "action", "outcome")
MODERATIONS: Final = _counter("moderations", "Moderation commands, one for each review", "action", "outcome")
FEEDBACK: Final = _counter("feedback", "Replies, votes and reports, and their removals", "action", "outcome")
IGNORED: Final = _counter(
    "ignored_fields", "Messages from Kafka with unknown fields, which are ignored, by kind of message", "kind"
)
REMINDERS: Final = _counter("reminders", "Reminders requested, and orders that got none, by reason", "outcome")
MAILS: Final = _counter("mails", "Attempts to send a mail: sent, delayed or rejected", "outcome")

FAMILIES: Final = frozenset(family.name for family in REGISTRY.collect())
"""The names as declared; counters are exposed with `_total`, histograms with `_bucket`, `_sum` and `_count`."""

ProcessCollector(registry=REGISTRY)  # CPU, memory and open files of the process, under the usual names


def name_build(version: str, process: str) -> None:
    """Set the version and name of this process."""
    BUILD.labels(version, platform.python_version(), process).set(1)


@lru_cache(maxsize=256)
def topic_label(name: str) -> str:
    """The topic of a full name, or of the name of its dead letters; "other" if it is none of ours."""
    name = name.removesuffix(DEAD_LETTER_SUFFIX)
    # The longest match: "order-events" also ends with "events".
    return max((topic.value for topic in Topic if name.endswith(topic)), key=len, default="other")


def count_published(messages: Sequence[OutgoingMessage]) -> None:
    """Count messages that the broker has acknowledged."""
    for topic, count in Count(message.topic for message in messages).items():
        if not topic.endswith(DEAD_LETTER_SUFFIX):
            PUBLISHED.labels(topic_label(topic)).inc(count)
            continue
        for message in messages:
            if message.topic == topic:
                code = dict(message.headers).get("x-error-code") or b"unknown"
                DEAD_LETTERS.labels(topic_label(topic), code.decode()).inc()


def note_ignored(kind: str, names: Sequence[str]) -> None:
    """Count a message with ignored fields; log each name once per kind, until there are too many."""
    IGNORED.labels(kind).inc()
    new = [name[:_NAME_LENGTH] for name in names if (kind, name[:_NAME_LENGTH]) not in _LOGGED_NAMES]
    if new and len(_LOGGED_NAMES) < _MAX_LOGGED_NAMES:
        _LOGGED_NAMES.update((kind, name) for name in new)
        log.warning("fields ignored", kind=kind, fields=new[:10])


def note_out_of_range(topic: str, partition: int, offset: int, oldest: int) -> None:
    """Log that a topic, by its full name, has no record at a committed offset; count those that were deleted unread."""
    details = {"topic": topic, "partition": partition, "offset": offset, "oldest": oldest}
    if oldest > offset:
        MISSED.labels(topic_label(topic)).inc(oldest - offset)
        log.error("records were deleted before they were read", count=oldest - offset, **details)
    else:
        log.warning(
            "the topic ends before the committed offset, so it was created again; reading it from the start",
            **details,
        )


def note_wait(where: str, error: BaseException | None, **about: object) -> None:
    """Log and count a wait for Kafka, MongoDB or the image store, according to the error."""
    what = _unavailable_server(error)
    event = "retrying: clocks differ" if isinstance(error, WrongClockError) else "retrying: server unavailable"
    log.warning(event, where=where, what=what, **about, error=for_log(error))
    RETRIES.labels(where, what).inc()


def _unavailable_server(error: BaseException | None) -> str:
    if error is not None and is_broker_away(error):
        return "kafka"
    return "images" if type(error).__module__.startswith("obstore") else "mongodb"
