"""Traces through Kafka: the W3C context travels in the header `traceparent`, and costs nothing while tracing is off.

A batch is one span, with links to the traces of its records; each record that carries a sampled `traceparent` also
has a span of its own in its own trace. What the consumer does for the whole batch (`step`) is a span in each of
those traces. https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from domain.delivery import OutgoingMessage, RecordPosition
from messaging.decoding import RawRecord, position_of
from messaging.metrics import topic_label
from messaging.topics import DEAD_LETTER_SUFFIX

HEADER: Final = "traceparent"

log = structlog.get_logger()

tracer: Final = trace.get_tracer("plaudit")
_propagator: Final = TraceContextTextMapPropagator()


@dataclass(slots=True)
class _Switch:
    is_on: bool = False


_switch: Final = _Switch()


def switch(on: bool) -> None:
    """Switch tracing on or off; it is off at first."""
    _switch.is_on = on


def is_on() -> bool:
    """True while spans are made."""
    return _switch.is_on


@dataclass(slots=True)
class _Batch:
    """The traced records of the batch in hand."""

    spans: dict[RecordPosition, Span] = field(default_factory=dict)
    """By the place of the record, or of the command that it passes on."""

    current: list[Span] = field(default_factory=list)
    """The parents of the next step, one in each trace."""


_batch: ContextVar[_Batch | None] = ContextVar("traced_batch", default=None)


def context_in(carrier: Mapping[str, str]) -> Context:
    """The context of a caller; empty if it sent none."""
    return _propagator.extract(carrier, Context())


def traceparent(span: Span) -> str:
    """The `traceparent` for children of a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(HEADER, "")


@contextmanager
def trace_publication(messages: Sequence[OutgoingMessage]) -> Iterator[Sequence[OutgoingMessage]]:
    """The span of a publication; yields the messages with its context in their headers.

    A message that carries the context of what caused it goes on in that trace. Dead letters stay as they are.
    """
    if not _switch.is_on:
        yield messages
        return
    with ExitStack() as stack:
        spans: dict[tuple[bytes, str], bytes] = {}

        def stamped(message: OutgoingMessage) -> OutgoingMessage:
            if message.topic.endswith(DEAD_LETTER_SUFFIX):
                return message
            cause = dict(message.headers).get(HEADER) or b""
            key = (cause, message.topic)
            if key not in spans:
                parent = context_in({HEADER: cause.decode(errors="replace")}) if cause else None
                topic = topic_label(message.topic)
                span = tracer.start_span(
                    f"publish {topic}", parent, SpanKind.PRODUCER, {"messaging.destination.name": topic}
                )
                stack.callback(span.end)
                spans[key] = traceparent(span).encode()
            if not spans[key]:
                return message
            headers = [header for header in message.headers if header[0] != HEADER]
            return message._replace(headers=[*headers, (HEADER, spans[key])])

        yield [stamped(message) for message in messages]


@contextmanager
def consumed(topic: str, records: Sequence[RawRecord]) -> Iterator[None]:
    """The span of a batch, and one for each record in it that is traced."""
    if not _switch.is_on:
        yield
        return
    with ExitStack() as stack:
        try:
            _enter(stack, topic, records)
        except Exception:
            # Tracing must not keep a record from its effect.
            log.exception("a batch is not traced", topic=topic)
        yield


def _enter(stack: ExitStack, topic: str, records: Sequence[RawRecord]) -> None:
    """Start the spans of a batch; the stack ends them."""
    parents = {position_of(record): parent for record in records if (parent := _parent(record)) is not None}
    is_alone = len(records) == 1 and len(parents) == 1
    links: list[Link] = []
    if not is_alone:
        size: dict[str, str | int] = {
            "messaging.destination.name": topic,
            "messaging.batch.message_count": len(records),
        }
        callers = [trace.get_current_span(parent).get_span_context() for parent in parents.values()]
        distinct = {(caller.trace_id, caller.span_id): caller for caller in callers}.values()
        whole = tracer.start_span(
            f"consume batch of {topic}", Context(), SpanKind.CONSUMER, size, [Link(caller) for caller in distinct]
        )
        links = [Link(whole.get_span_context())]
        stack.enter_context(trace.use_span(whole, end_on_exit=True))
    batch = _Batch()
    for position, parent in parents.items():
        about: dict[str, str | int] = {
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(position.partition),
            "messaging.kafka.offset": position.offset,
        }
        batch.spans[position] = span = tracer.start_span(f"consume {topic}", parent, SpanKind.CONSUMER, about, links)
        stack.callback(span.end)
    batch.current = list(batch.spans.values())
    if is_alone:
        stack.enter_context(trace.use_span(batch.current[0]))
    stack.callback(_batch.reset, _batch.set(batch))


@contextmanager
def step(name: str, others: Iterable[tuple[str, Link | None]] = ()) -> Iterator[None]:
    """A span in the trace of each record of the batch, and in those of other contexts, each with a link."""
    batch = _batch.get()
    if not _switch.is_on or batch is None:
        yield
        return
    before = batch.current
    spans = [tracer.start_span(name, trace.set_span_in_context(parent, Context())) for parent in before]
    other = [
        tracer.start_span(name, context_in({HEADER: parent}), links=[link] if link else None) for parent, link in others
    ]
    batch.current = spans
    try:
        yield
    finally:
        batch.current = before
        for span in (*spans, *other):
            span.end()


def same_cause(record: RawRecord, command: RecordPosition) -> None:
    """Attribute the spans of a command to the record that passed it on."""
    batch = _batch.get()
    if batch is not None and (span := batch.spans.get(position_of(record))):
        batch.spans[command] = span


def cause_of(position: RecordPosition) -> str:
    """The `traceparent` for messages that follow from a record of the batch, or from its command; else empty."""
    batch = _batch.get()
    span = batch.spans.get(position) if batch is not None else None
    return traceparent(span) if span else ""


def link_to(position: RecordPosition) -> Link | None:
    """A link to the span of a record of the batch in hand."""
    batch = _batch.get()
    span = batch.spans.get(position) if batch is not None else None
    return Link(span.get_span_context()) if span else None


def trace_headers(cause: str) -> tuple[tuple[str, bytes], ...]:
    """The header that carries a context to the next process, if there is one."""
    return ((HEADER, cause.encode()),) if cause else ()


def _parent(record: RawRecord) -> Context | None:
    for name, value in record.headers:
        if name == HEADER and value:
            context = context_in({HEADER: value.decode(errors="replace")})
            found: SpanContext = trace.get_current_span(context).get_span_context()
            return context if found.is_valid and found.trace_flags.sampled else None
    return None
