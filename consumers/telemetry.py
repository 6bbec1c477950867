"""Metrics, spans and log lines of a batch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

import structlog

from messaging.decoding import RawRecord
from messaging.envelope import command_id_in
from messaging.metrics import BATCH_RECORDS, BATCH_SECONDS, CONSUMED
from messaging.topics import Topic
from messaging.tracing import consumer_spans

log = structlog.get_logger()


@contextmanager
def about_command(records: Sequence[RawRecord]) -> Iterator[None]:
    """Add the command id to each log line, if all these records belong to one command."""
    first = command_id_in(records[0].headers)
    if first is not None and all(command_id_in(record.headers) == first for record in records):
        with structlog.contextvars.bound_contextvars(command_id=first):
            yield
    else:
        yield


@contextmanager
def observe_batch(topic: Topic, records: Sequence[RawRecord]) -> Iterator[None]:
    """Trace and measure a batch; one that fails or is cancelled isn't counted."""
    started = perf_counter()
    with about_command(records), consumer_spans(topic.value, records):
        yield
        seconds = perf_counter() - started
        CONSUMED.labels(topic.value).inc(len(records))
        BATCH_RECORDS.labels(topic.value).observe(len(records))
        BATCH_SECONDS.labels(topic.value).observe(seconds)
        log.debug("batch done", topic=topic.value, records=len(records), seconds=round(seconds, 6))
