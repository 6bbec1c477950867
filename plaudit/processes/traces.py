"""The export of spans: to the collector of OpenTelemetry's standard variables, and to a file of JSON lines."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

import orjson
from opentelemetry import trace
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from messaging import tracing
from plaudit.config import ConfigurationError, TracesSettings

_OTLP_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_FLUSH_S: Final = 2.0
"""Seconds for sending the last spans; the rest is lost, because a stop must not wait for a collector."""

_LONGEST_LINE: Final = 1024 * 1024


@contextmanager
def export_traces(settings: TracesSettings, process: str, version: str) -> Iterator[None]:
    """Trace until the block ends, if spans have a destination. Raises ConfigurationError for an unusable file."""
    is_exported = any(os.environ.get(name) for name in _OTLP_VARIABLES)
    if not (is_exported or settings.file) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield
        return
    # Imported here, so that processes without tracing start faster.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    def line(span: ReadableSpan) -> str:
        context: SpanContext | None = span.context
        fields = {
            "trace": format_trace_id(context.trace_id) if context else None,
            "span": format_span_id(context.span_id) if context else None,
            "parent": format_span_id(span.parent.span_id) if span.parent else None,
            "process": process,
            "name": span.name,
            "kind": span.kind.name.lower(),
            "start": span.start_time,
            "end": span.end_time,
            "attributes": dict(span.attributes or {}),
            "links": [
                {"trace": format_trace_id(link.context.trace_id), "span": format_span_id(link.context.span_id)}
                for link in span.links
            ],
        }
        return orjson.dumps(fields).decode() + "\n"

    attributes = {"service.name": f"plaudit-{process}", "service.version": version}
    if "OTEL_SERVICE_NAME" in os.environ:
        del attributes["service.name"]
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    if settings.file:
        try:
            # Each line is one write, so that processes can share the file.
            file = settings.file.open("a", buffering=_LONGEST_LINE)
        except OSError as error:
            raise ConfigurationError(f"PLAUDIT_TRACES__FILE: {settings.file}: {error.strerror}.") from error
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=line)))
    if is_exported:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    tracing.switch(on=True)
    try:
        yield
    finally:
        tracing.switch(on=False)
        shutdown = Thread(target=provider.shutdown, daemon=True)
        shutdown.start()
        shutdown.join(_FLUSH_S)
