"""Tracing through Kafka: the header `traceparent` carries the W3C context. It costs nothing while tracing is off.

A batch is one span, with links to the traces of its records. Each record with a sampled `traceparent` also has a span
in its own trace, which the messages that follow from it continue. https://www.w3.org/TR/trace-context/
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
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

_is_on = False


def switch(on: bool) -> None:
    """Switch tracing on or off; initially it is off."""
    global _is_on
    _is_on = on


def is_on() -> bool:
    """True while spans are created."""
    return _is_on


_causes: Final[ContextVar[Mapping[RecordPosition, str]]] = ContextVar("causes")
"""The `traceparent` of each traced record in the current batch."""


def context_in(carrier: Mapping[str, str]) -> Context:
    """The context of a caller; empty if it sent none."""
    return _propagator.extract(carrier, Context())


def trace_headers(cause: str) -> tuple[tuple[str, bytes], ...]:
    """The header that passes a context on, if there is one."""
    return ((HEADER, cause.encode()),) if cause else ()


def cause_of(position: RecordPosition) -> str:
    """The `traceparent` for messages that follow from a record of the current batch; empty if that isn't traced."""
    return _causes.get({}).get(position, "")


@contextmanager
def trace_publication(messages: Sequence[OutgoingMessage]) -> Iterator[Sequence[OutgoingMessage]]:
    """The span of a publication; yields the messages with its context in their headers.

    A message with the context of its cause continues that trace. Dead letters stay as they are.
    """
    if not _is_on:
        yield messages
        return
    with ExitStack() as stack:

        @cache
        def context_of_publication(topic: str, cause: bytes) -> str:
            parent = context_in({HEADER: cause.decode(errors="replace")}) if cause else None
            label = topic_label(topic)
            span = tracer.start_span(
                f"publish {label}", parent, SpanKind.PRODUCER, {"messaging.destination.name": label}
            )
            stack.callback(span.end)
            return _traceparent(span)

        def with_context(message: OutgoingMessage) -> OutgoingMessage:
            if message.topic.endswith(DEAD_LETTER_SUFFIX):
                return message
            header = trace_headers(context_of_publication(message.topic, dict(message.headers).get(HEADER) or b""))
            others = [each for each in message.headers if each[0] != HEADER]
            return message._replace(headers=[*others, *header]) if header else message

        yield [with_context(message) for message in messages]


@contextmanager
def consumer_spans(topic: str, records: Sequence[RawRecord]) -> Iterator[None]:
    """The span of a batch, and one for each traced record in it; a single traced record has only its own."""
    if not _is_on:
        yield
        return
    with ExitStack() as stack:
        try:
            _start_spans(stack, topic, records)
        except Exception:
            # A failure of tracing must not keep records from being processed.
            log.exception("a batch is not traced", topic=topic)
        yield


def _start_spans(stack: ExitStack, topic: str, records: Sequence[RawRecord]) -> None:
    """Start the spans of a batch; `stack` ends them."""
    callers = {position_of(record): caller for record in records if (caller := _sampled_context(record)) is not None}
    attributes: dict[str, str | int] = {"messaging.destination.name": topic}
    links: list[Link] = []
    if len(records) > 1 or not callers:
        distinct = {
            (context.trace_id, context.span_id): Link(context) for context in map(_span_context, callers.values())
        }
        size = attributes | {"messaging.batch.message_count": len(records)}
        batch = tracer.start_span(
            f"consume batch of {topic}", Context(), SpanKind.CONSUMER, size, list(distinct.values())
        )
        stack.enter_context(trace.use_span(batch, end_on_exit=True))
        links = [Link(batch.get_span_context())]
    causes: dict[RecordPosition, str] = {}
    for position, caller in callers.items():
        place: dict[str, str | int] = {
            "messaging.destination.partition.id": str(position.partition),
            "messaging.kafka.offset": position.offset,
        }
        span = tracer.start_span(f"consume {topic}", caller, SpanKind.CONSUMER, attributes | place, links)
        stack.callback(span.end)
        causes[position] = _traceparent(span)
        if not links:
            stack.enter_context(trace.use_span(span))
    stack.callback(_causes.reset, _causes.set(causes))


def _sampled_context(record: RawRecord) -> Context | None:
    """The context of a record's sender if it is sampled; None otherwise."""
    header = dict(record.headers).get(HEADER)
    context = context_in({HEADER: header.decode(errors="replace")}) if header else Context()
    found = _span_context(context)
    return context if found.is_valid and found.trace_flags.sampled else None


def _span_context(context: Context) -> SpanContext:
    return trace.get_current_span(context).get_span_context()


def _traceparent(span: Span) -> str:
    """The `traceparent` for children of a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier.get(HEADER, "")
