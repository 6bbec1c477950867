"""Trace contexts in Kafka records."""

from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from starlette.types import Receive, Scope, Send

from api.web.telemetry import RequestTelemetry
from domain.delivery import OutgoingMessage, RecordPosition
from messaging import tracing
from tests.support.records import Record

TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "1af7651916cd43dd8448eb211c80319c"


def traceparent(trace: str, flags: str = "01") -> bytes:
    return f"00-{trace}-b7ad6b7169203331-{flags}".encode()


def traced(offset: int, value: bytes) -> Record:
    return Record(offset, [("other", b"\xff"), (tracing.HEADER, value)], timestamp=1)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", provider.get_tracer("test"))
    tracing.switch(on=True)
    yield exporter
    tracing.switch(on=False)


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def header(message: OutgoingMessage) -> str:
    return (dict(message.headers)[tracing.HEADER] or b"").decode()


def test_nothing_is_added_while_tracing_is_off() -> None:
    messages = [OutgoingMessage("plaudit.events", None, b"{}")]
    with tracing.consumer_spans("events", [traced(0, traceparent(TRACE))]):
        assert tracing.cause_of(RecordPosition(0, 0, 1)) == ""
        with tracing.trace_publication(messages) as sent:
            assert sent is messages


def test_single_record_is_one_span(spans: InMemorySpanExporter) -> None:
    with (
        tracing.consumer_spans("events", [traced(0, traceparent(TRACE))]),
        tracing.trace_publication([OutgoingMessage("plaudit.events", None, b"{}")]) as sent,
    ):
        assert TRACE in header(sent[0])
    found = spans.get_finished_spans()
    assert sorted(span.name for span in found) == ["consume events", "publish events"]
    assert {trace_of(span) for span in found} == {TRACE}


def test_batch_is_a_span_with_links_and_its_records_keep_their_traces(spans: InMemorySpanExporter) -> None:
    records = [
        *(traced(0, traceparent(TRACE)), traced(1, traceparent(OTHER)), traced(2, traceparent(OTHER))),
        *(traced(3, traceparent(TRACE, "00")), traced(4, b"\xff nonsense"), Record(5, timestamp=1)),
    ]
    with tracing.consumer_spans("events", records):
        messages = [
            OutgoingMessage("plaudit.mail-commands", None, b"", tracing.trace_headers(tracing.cause_of(position)))
            for position in (RecordPosition(0, offset, 1) for offset in (0, 1, 5))
        ]
        with tracing.trace_publication(messages) as sent:
            assert [TRACE in header(sent[0]), OTHER in header(sent[1])] == [True, True]
    found = spans.get_finished_spans()
    (whole,) = (span for span in found if span.name == "consume batch of events")
    assert len(whole.links) == 2
    assert trace_of(whole) in header(sent[2])
    assert sorted(trace_of(span) for span in found if span.name == "consume events") == [TRACE, OTHER, OTHER]


def test_dead_letters_are_unchanged(spans: InMemorySpanExporter) -> None:
    letter = OutgoingMessage("plaudit.events.dlq", None, b"", [(tracing.HEADER, traceparent(TRACE))])
    with tracing.trace_publication([letter]) as sent:
        assert sent == [letter]
    assert not spans.get_finished_spans()


async def test_span_of_a_failed_request_has_no_text_of_the_error(spans: InMemorySpanExporter) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("words of a customer")

    transport = httpx.ASGITransport(RequestTelemetry(fail))
    async with httpx.AsyncClient(transport=transport, base_url="http://plaudit") as http:
        with pytest.raises(RuntimeError):
            await http.get("/")
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "words of a customer" not in span.to_json()
