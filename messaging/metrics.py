"""All metrics of all processes. Labels have few values and hold neither ids nor anything personal.

A process exposes all of these names; what it has nothing to say about has no samples. `topic` is a topic's name
without the prefix, for its dead letters as well.
"""

from __future__ import annotations

import platform
from collections import Counter as Count
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from domain.delivery import OutgoingMessage
from messaging.kafka.connection import is_broker_away
from messaging.topics import DEAD_LETTER_SUFFIX, Topic

disable_created_metrics()  # type: ignore[no-untyped-call]

log = structlog.get_logger()

PREFIX: Final = "plaudit_"
REGISTRY: Final = CollectorRegistry()

BUILD: Final = Gauge("plaudit_build_info", "1, for what runs here", ["version", "python", "process"], registry=REGISTRY)

TASKS: Final = Gauge("plaudit_tasks", "Tasks of asyncio that are not done", registry=REGISTRY)

HTTP_REQUESTS: Final = Counter(
    "plaudit_http_requests", "Requests that were answered", ["method", "route", "status"], registry=REGISTRY
)
HTTP_SECONDS: Final = Histogram(
    "plaudit_http_request_seconds",
    "Time to answer a request, waits by `Prefer: wait` included",
    ["method", "route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30),
    registry=REGISTRY,
)

CONSUMED: Final = Counter(
    "plaudit_consumed_records", "Records that had their effect or became dead letters", ["topic"], registry=REGISTRY
)
BATCH_RECORDS: Final = Histogram(
    "plaudit_batch_records",
    "Records in a batch",
    ["topic"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000),
    registry=REGISTRY,
)
BATCH_SECONDS: Final = Histogram(
    "plaudit_batch_seconds",
    "Time to process a batch, waits for MongoDB or Kafka included",
    ["topic"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
    registry=REGISTRY,
)
PUBLISHED: Final = Counter(
    "plaudit_published_messages", "Messages acknowledged by Kafka, dead letters apart", ["topic"], registry=REGISTRY
)
DEAD_LETTERS: Final = Counter(
    "plaudit_dead_letters", "Dead letters acknowledged by Kafka", ["topic", "code"], registry=REGISTRY
)
RETRIES: Final = Counter(
    "plaudit_retries",
    "Waits for a server that was away: `where` is a topic or a task, `what` is mongodb, kafka or smtp",
    ["where", "what"],
    registry=REGISTRY,
)

CONSUMER_LAG: Final = Gauge(
    "plaudit_consumer_lag_records",
    "Records that the group of a topic has yet to commit; told by the API, whether or not a worker runs",
    ["topic", "partition"],
    registry=REGISTRY,
)
CONSUMER_STANDSTILL: Final = Gauge(
    "plaudit_consumer_standstill_seconds",
    "For how long a partition with a backlog has made no progress; told by the API, of backlogs alone",
    ["topic", "partition"],
    registry=REGISTRY,
)
PARKED: Final = Gauge(
    "plaudit_parked_commands",
    "Commands that wait for what they are about (reviews or returns); told by the API",
    ["kind"],
    registry=REGISTRY,
)
OUTBOX: Final = Gauge(
    "plaudit_outbox_documents", "Batches of messages that are owed to Kafka; told by the API", registry=REGISTRY
)
STATE_KNOWN: Final = Gauge(
    "plaudit_state_known",
    "Whether the API could ask (1) or not (0) for lag (kafka), or for parked commands and the outbox (mongodb)",
    ["what"],
    registry=REGISTRY,
)

SUBMISSIONS: Final = Counter(
    "plaudit_submissions",
    "Submitted reviews: stored, repeated, or the code of their refusal, by the API or by a worker",
    ["outcome"],
    registry=REGISTRY,
)
MODERATIONS: Final = Counter(
    "plaudit_moderations", "Moderation commands, one for each review", ["action", "outcome"], registry=REGISTRY
)
REMINDERS: Final = Counter(
    "plaudit_reminders", "Reminders requested, and orders that got none, by reason", ["outcome"], registry=REGISTRY
)
MAILS: Final = Counter(
    "plaudit_mails", "Attempts to send a mail: sent, delayed or rejected", ["outcome"], registry=REGISTRY
)

FAMILIES: Final = frozenset(family.name for family in REGISTRY.collect())
"""The names as declared; counters are exposed with `_total`, histograms with `_bucket`, `_sum` and `_count`."""

ProcessCollector(registry=REGISTRY)  # CPU, memory and open files of the process, under the usual names


def name_build(version: str, process: str) -> None:
    """Set the version and name of this process."""
    BUILD.labels(version, platform.python_version(), process).set(1)


@lru_cache(maxsize=256)
def topic_label(name: str) -> str:
    """The topic behind a full name, prefix and all, also for its dead letters; "other" if it is none of ours."""
    name = name.removesuffix(DEAD_LETTER_SUFFIX)
    # The longest, for "order-events" ends with "events", too.
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


def exposed_names(family: str, kind: str) -> list[str]:
    """The names of the samples of a family, as queries use them; `kind` is its Prometheus type."""
    match kind:
        case "counter":
            return [f"{family}_total"]
        case "histogram":
            return [f"{family}_bucket", f"{family}_sum", f"{family}_count"]
        case _:
            return [family]


def note_wait(where: str, error: BaseException | None, **about: object) -> None:
    """Log and count a wait for Kafka or MongoDB, whichever the error is about."""
    reason = f"{type(error).__name__}: {error}"[:300]
    log.warning("retrying: MongoDB or Kafka unavailable", where=where, **about, error=reason)
    RETRIES.labels(where, "kafka" if error is not None and is_broker_away(error) else "mongodb").inc()
