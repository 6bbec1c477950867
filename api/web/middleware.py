"""Middleware for every request, as plain ASGI."""

import asyncio
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web.problems import ProblemError, ProblemKind, problem_response, unavailable
from api.web.telemetry import outer_of
from messaging.kafka.connection import is_broker_away, is_too_large
from messaging.server_errors import for_log
from storage.database import is_database_away, is_too_slow
from storage.images.files import is_image_store_away
from storage.shapes import StoredDocumentError

log = structlog.get_logger()


_ANSWER_S: Final = 35.0
"""Seconds until an answer begins, or more of the body arrives: time for a query and a publication. PyMongo on Python
3.11 can wait forever for the lock of its connection pool when a server goes away, whatever its own timeouts are."""

_WAIT_S: Final = 35.0
"""Additional seconds for a request with `Prefer`, which may wait for up to 30 s."""


_DEADLINE: Final = "plaudit.deadline"


class LastResort:
    """Turns uncaught errors into problems: 503 if MongoDB or Kafka is unavailable, or the process stops before the
    answer begins, else 500 and a logged traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        waits = any(name == b"prefer" for name, _ in scope["headers"])
        timeout_s = _ANSWER_S + (_WAIT_S if waits else 0)
        scope[_DEADLINE] = deadline = asyncio.timeout(timeout_s)

        async def receive_in_time() -> Message:
            message = await receive()
            if not (started or deadline.expired()):
                deadline.reschedule(asyncio.get_running_loop().time() + timeout_s)
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal started
            if not started:
                started = True
                # A request that is a part of this one may have answered the cancellation, which the app passes on.
                if not deadline.expired():
                    deadline.reschedule(None)
            await send(message)

        try:
            async with deadline:
                await self._app(scope, receive_in_time, send_and_note)
        except asyncio.CancelledError:
            if started:
                raise
            # A stopping process cancels its requests after a while, a request its parts when its own time is over. The
            # server, and the other request, expect no more than a response.
            stopping = ProblemError(ProblemKind.UNAVAILABLE, "This process is stopping. Send the request again.")
            problem = unavailable("MongoDB or Kafka") if _is_outer_too_late(scope) else stopping
            await problem_response(scope, problem)(scope, receive, send)
        except Exception as error:
            if started:
                raise
            problem = unavailable("MongoDB or Kafka") if deadline.expired() else problem_of(scope, error)
            await problem_response(scope, problem)(scope, receive, send)


def _is_outer_too_late(scope: Scope) -> bool:
    """True if this request is a part of another one whose time is over."""
    deadline: asyncio.Timeout | None = (outer_of(scope) or {}).get(_DEADLINE)
    return deadline is not None and deadline.expired()


def problem_of(scope: Scope, error: Exception) -> ProblemError:
    """The problem for an uncaught error, which is also logged."""
    if is_too_slow(error):
        log.warning("Query took too long", path=scope["path"])
        detail = "The database took too long. Try again; a search is faster with narrower filters or a smaller skip."
        return ProblemError(ProblemKind.QUERY_TIMEOUT, detail)
    if is_database_away(error):
        log.warning("MongoDB unavailable", path=scope["path"], error=for_log(error))
        return unavailable("The database")
    if is_broker_away(error):
        log.warning("Kafka unavailable", path=scope["path"], error=for_log(error))
        return unavailable("The message broker")
    if is_too_large(error):
        log.error("A message is too large for its topic: raise its max.message.bytes", path=scope["path"])
        detail = "The request makes a message that is larger than the message broker accepts. Send less at a time."
        return ProblemError(ProblemKind.TOO_LARGE, detail)
    if is_image_store_away(error):
        log.warning("Image store unavailable", path=scope["path"], error=for_log(error))
        return unavailable("The image store")
    if isinstance(error, StoredDocumentError):
        log.error("A stored document is damaged", path=scope["path"], error=str(error))
        detail = (
            f"A stored document that this needs is damaged, in the collection {error.collection}. The request is not "
            "at fault: send it again after the repair. `plaudit doctor` finds such documents and says how to repair "
            "them; the log of the service has the id of this one."
        )
        return ProblemError(ProblemKind.INTERNAL, detail)
    log.error("Request failed", method=scope["method"], path=scope["path"], exc_info=error)
    return ProblemError(
        ProblemKind.INTERNAL, "The request failed because of an internal error. The log of the service has the cause."
    )
