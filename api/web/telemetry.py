"""Telemetry of a request: its metrics, its span, and its line in the log."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http import HTTPStatus
from time import perf_counter
from typing import Final

import structlog
from opentelemetry import trace
from opentelemetry.trace import SpanKind
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from messaging import tracing
from messaging.metrics import HTTP_REQUESTS, HTTP_RESPONSE_SECONDS, HTTP_SECONDS

_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_QUIET: Final = frozenset({"/health/live", "/health/ready", "/metrics"})
"""Routes that machines request all the time."""

_OUTER: Final = "plaudit.outer_request"
_WAITED: Final = "plaudit.waited"

log = structlog.get_logger()


class RequestTelemetry:
    """Counts, measures, traces and logs each request by its route template, without ids and queries.

    A request that is part of another one (`within`) is traced and logged, but counted only with the outer one.

    HEAD is handled as the GET of the same path, here and in all that is inside; the server leaves out the body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        structlog.contextvars.clear_contextvars()
        started, status, answered = perf_counter(), 0, 0.0
        upload_s, is_stream = 0.0, False

        async def receive_timed() -> Message:
            nonlocal upload_s
            began = perf_counter()
            message = await receive()
            if not answered:
                upload_s += perf_counter() - began  # the client's time, not ours
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal status, answered, is_stream
            if message["type"] == "http.response.start":
                status, answered, is_stream = message["status"], perf_counter(), _is_stream(message)
            await send(message)

        with _span(scope) as span:
            try:
                await self._app(scope, receive_timed, send_and_note)
            finally:
                seconds = perf_counter() - started
                method = scope["method"] if scope["method"] in _METHODS else "other"
                # Otherwise anybody could add series to each route.
                counted = "other" if status == HTTPStatus.METHOD_NOT_ALLOWED else method
                route = getattr(scope.get("route"), "path", "none")
                if _OUTER not in scope:
                    _request_counter(counted, route, status // 100).inc()
                    if not is_stream:
                        _duration_histogram(counted, route).observe(seconds)
                    if status < 500 and answered and route not in _QUIET and _WAITED not in scope:
                        HTTP_RESPONSE_SECONDS.observe(answered - started - upload_s)
                log_request = log.debug if route in _QUIET else log.info
                log_request("request", method=method, route=route, status=status, ms=round(seconds * 1000, 1))
                if span is not None:
                    _describe(span, method, route, status)


def within(app: ASGIApp, outer: Scope) -> ASGIApp:
    """The application for requests that are part of another one, whose scope is `outer`."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, _OUTER: outer}, receive, send)

    return serve


def outer_of(scope: Scope) -> Scope | None:
    """The request that this one is a part of; None if there is none."""
    outer: Scope | None = scope.get(_OUTER)
    return outer


def note_wait(scope: Scope) -> None:
    """Note that the answer to this request, and to the outer one, waits for the outcome of a command."""
    scope[_WAITED] = True
    if outer := outer_of(scope):
        note_wait(outer)


@cache
def _request_counter(method: str, route: str, hundreds: int) -> Counter:
    return HTTP_REQUESTS.labels(method, route, f"{hundreds}xx" if hundreds else "none")


@cache
def _duration_histogram(method: str, route: str) -> Histogram:
    return HTTP_SECONDS.labels(method, route)


def _is_stream(start: Message) -> bool:
    """True for an answer that lasts as long as its page is open: its duration says nothing about the service."""
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in start["headers"])


@contextmanager
def _span(scope: Scope) -> Iterator[trace.Span | None]:
    if not tracing.is_on():
        yield None
        return
    parent = tracing.context_in(
        {name.decode(): value.decode(errors="replace") for name, value in scope["headers"] if name == b"traceparent"}
    )
    # Without the message of an error, which can contain texts.
    with tracing.tracer.start_as_current_span(
        "HTTP", parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception:
            span.set_status(trace.StatusCode.ERROR)
            raise


def _describe(span: trace.Span, method: str, route: str, status: int) -> None:
    span.update_name(f"{method} {route}")
    span.set_attributes({"http.request.method": method, "http.route": route, "http.response.status_code": status})
    command_id = structlog.contextvars.get_contextvars().get("command_id")
    if command_id:
        span.set_attribute("plaudit.command_id", command_id)
    if status >= 500:
        span.set_status(trace.StatusCode.ERROR)
