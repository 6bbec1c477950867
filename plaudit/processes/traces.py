"""The export of spans: to the collector of OpenTelemetry's standard variables, and to a file of JSON lines."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Final

from opentelemetry import trace

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
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

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
        exporter = ConsoleSpanExporter(out=file, formatter=lambda span: f"{span.to_json(indent=None)}\n")
        provider.add_span_processor(SimpleSpanProcessor(exporter))
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
