"""The HTTP server for the health and metrics of a process: `/health/live`, `/health/ready`, `/metrics`."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from prometheus_client import MetricsHandler

from messaging.metrics import REGISTRY

log = structlog.get_logger()

LIVE_SECONDS: Final = 5.0
"""Seconds that the event loop has to respond."""

SILENT_SECONDS: Final = 10.0
"""Seconds after which an idle client is disconnected: each connection holds a thread."""

Refresh = Callable[[], Coroutine[Any, Any, None]]


class Probes:
    """The health of the process, asked for by threads other than that of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.is_ready = False
        """Set by the process once it does its work. Servers that become unavailable later don't unset it, because the
        process waits for them: only partitions without progress for a minute make a worker unready."""
        self.failures: list[str] = []
        """Reasons why the process doesn't do its work at the moment; while there is one, it isn't ready."""
        self.refresh: Refresh | None = None
        """Updates the metrics, on the event loop, before they are served."""

    def refreshed(self) -> bool:
        """Update the metrics; False if that takes more than LIVE_SECONDS."""
        if self.refresh is None:
            return True
        refreshing = asyncio.run_coroutine_threadsafe(self.refresh(), self._loop)
        try:
            refreshing.result(LIVE_SECONDS)
        except (TimeoutError, CancelledError):
            refreshing.cancel()
            return False
        return True

    def is_alive(self) -> bool:
        """True if the event loop runs a callback within LIVE_SECONDS."""
        has_run = threading.Event()
        self._loop.call_soon_threadsafe(has_run.set)
        return has_run.wait(LIVE_SECONDS)


class _Server(ThreadingHTTPServer):
    """An HTTP server whose handlers have the probes."""

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        self.probes = probes
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error; the base class would print it."""
        log.warning("a request for health or metrics failed", exc_info=True)


class _Handler(MetricsHandler):
    registry = REGISTRY
    server: _Server
    timeout = SILENT_SECONDS

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server wants
        match urlsplit(self.path).path:
            case "/metrics" if self.server.probes.refreshed():
                super().do_GET()
            case "/metrics":
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            case "/health/live":
                self._respond(self.server.probes.is_alive())
            case "/health/ready":
                probes = self.server.probes
                self._respond(probes.is_ready and not probes.failures, probes.failures)
            case _:
                self.send_error(HTTPStatus.NOT_FOUND)

    def _respond(self, passed: bool, reasons: Sequence[str] = ()) -> None:
        health = {"status": "pass" if passed else "fail"} | ({"reasons": list(reasons)} if reasons else {})
        body = json.dumps(health).encode()
        self.send_response(HTTPStatus.OK if passed else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve_health(probes: Probes, host: str, port: int) -> Iterator[None]:
    """Serve health and metrics until the block ends, in threads, so that a busy event loop doesn't delay them.

    Raises OSError if the address can't be listened on.
    """
    server = _Server(host, port, probes)
    thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
