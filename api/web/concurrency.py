"""Limits on concurrent requests, and on the bytes of their bodies and answers; beyond them the response is 503.

`api.web.budgets` shows step by step how a client that reads slowly is ended. One that sends its body slowly is ended in
the same way, with 503.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web import budgets
from api.web.budgets import Budget, NoRoomError, Share, StalledError
from api.web.hygiene import HEALTH
from api.web.problems import ProblemError, problem_response
from api.web.telemetry import note_wait, outer_of

SMALL: Final = 16 * 1024
"""Bodies and answers up to this many bytes aren't counted: connections are limited, and small requests needn't wait."""

BYTES_PER_S: Final = 16 * 1024
"""A body that arrives at fewer bytes per second counts as stalled, although more of it arrives."""

PIECE: Final = 64 * 1024
"""Bytes of an answer that are passed on at a time, as fast as the client reads."""

QUERIES: Final = frozenset(
    ("entityRating", "reviewList", "search", "counts", "changes", "objects", "try", "preview"),
)
"""The last path segments whose POST is a query."""

_COMMANDS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_REFUSALS_PER_S: Final = 200
"""Refusals per second of commands beyond their limit: clients that retry at once gain nothing."""

_LONGEST_REFUSAL_S: Final = 7.0

_KEY: Final = "plaudit.concurrency"
_MOST_BYTES: Final = "plaudit.most_body_bytes"

log = structlog.get_logger()


class ConcurrencyLimit:
    """Answers 503 to too many concurrent requests, or to too many bytes of theirs.

    A request doesn't count while it waits for its client (to send its body, to read its answer), for the outcome of its
    command, or for an OpenID provider. Commands may have half of the places: while Kafka is slow or unavailable, the
    others are left for queries. Queries may have three quarters: while MongoDB is slow or unavailable, the others are
    left for commands. The memory of a body is reserved before it is read, up to `max_body_bytes` unless its reader has
    called `limit_body`, and returned with the answer, or when the command waits for its outcome. That of an answer is
    returned once the client has read it; a client that doesn't read while others need the memory is cut off.
    """

    def __init__(self, app: ASGIApp, most: int, bodies: Budget, answers: Budget, max_body_bytes: int) -> None:
        self._app = app
        self._most = most
        self._bodies = bodies
        self.answers = answers
        self._max_body_bytes = max_body_bytes
        self._count = self._commands = self._refused = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_command = scope["method"] in _COMMANDS and scope["path"].rpartition("/")[2] not in QUERIES
        if is_command and self._commands >= self._most / 2:
            await self._wait_for_refusal()
            await problem_response(scope, NoRoomError("Too many commands are in progress."))(scope, receive, send)
            return
        queries = self._count - self._commands
        is_full = self._count >= self._most or (not is_command and queries >= self._most * 3 / 4)
        if is_full and not scope["path"].startswith(HEALTH):
            await problem_response(scope, NoRoomError("Too many requests are in progress."))(scope, receive, send)
            return
        request = scope[_KEY] = LimitedRequest(self, is_command, scope, receive, send)
        self.count(is_command, 1)
        try:
            await self._app(scope, request.receive, request.send)
        except StalledError:
            if outer_of(scope):
                raise  # its answer hasn't begun
            # The connection is closed before the end of the answer, so the client notices that it is incomplete.
            log.info("response cut off: the client didn't read it, and others needed its memory", path=scope["path"])
        finally:
            self.count(is_command, -1)
            request.give_back_body()
            request.give_back_room()

    async def _wait_for_refusal(self) -> None:
        self._refused += 1
        try:
            await asyncio.sleep(min(self._refused / _REFUSALS_PER_S, _LONGEST_REFUSAL_S))
        finally:
            self._refused -= 1

    def count(self, is_command: bool, more: int) -> None:
        """Add `more`, which may be negative, to the number of concurrent requests."""
        self._count += more
        self._commands += more * is_command

    async def room_for_body(self, scope: Scope) -> Share | None:
        """Reserve the bytes of the body that the headers announce; None if it is small. Raises NoRoomError."""
        size = self._announced_bytes(scope)
        return await self._bodies.take(size) if size > SMALL else None

    def _announced_bytes(self, scope: Scope) -> int:
        most: int = scope.get(_MOST_BYTES, self._max_body_bytes)
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and len(value) < 20:
                return min(int(value), most)
            if name == b"transfer-encoding":
                return most
        return 0


class LimitedRequest:
    """One request, and the bytes it holds."""

    def __init__(
        self, requests: ConcurrencyLimit, is_command: bool, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._requests = requests
        self._is_command = is_command
        self._scope = scope
        self._receive = receive
        self._send = send
        self._start: Message | None = None
        self._body: Share | None = None
        self._room: Share | None = None
        self._has_room = False
        self._has_room_since = 0.0
        self._received_bytes = 0
        self._is_refused = False
        self._waits = 0

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Don't count the request in this block, where it waits for something outside this process."""
        self._waits += 1
        if self._waits == 1:
            self._requests.count(self._is_command, -1)
        try:
            yield
        finally:
            self._waits -= 1
            if self._waits == 0:
                self._requests.count(self._is_command, 1)

    def give_back_body(self) -> None:
        """Return the bytes of the body, which isn't kept any longer."""
        self._has_room = True
        if self._body is not None:
            self._body.give_back()
            self._body = None

    async def take_room(self, size: int) -> None:
        """Reserve this many bytes for an answer before they are read. Raises NoRoomError."""
        if size > SMALL:
            with self.outside():
                self._room = await self._requests.answers.take(size)

    def give_back_room(self) -> None:
        """Return the bytes reserved for an answer that isn't sent."""
        if self._room is not None:
            self._room.give_back()
            self._room = None

    async def receive(self) -> Message:
        """The next part of the body. Raises NoRoomError if there is no memory for it, or others need it."""
        with self.outside():
            if not self._has_room:
                self._body = await self._requests.room_for_body(self._scope)
                self._has_room, self._has_room_since = True, asyncio.get_running_loop().time()
            if self._body is None:
                return await self._receive()
            # Earlier than now if the body is behind the rate.
            since = self._has_room_since + self._received_bytes / BYTES_PER_S
            is_slow = asyncio.get_running_loop().time() - since > budgets.STALLED_S
            try:
                async with self._body.stalling(since if is_slow else None):
                    message = await self._receive()
            except StalledError as error:
                raise NoRoomError("The body arrived too slowly, and others needed its memory.") from error
            self._received_bytes += len(message.get("body", b""))
            return message

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer. Its start waits for the first bytes, so that a problem can still replace it."""
        if message["type"] == "http.response.start":
            self.give_back_body()
            self._start = message
            return
        body = message.get("body", b"")
        if self._is_refused:
            return
        if len(body) <= SMALL:
            await self._pass_on(message)
            return
        try:
            with self.outside():
                room = await self._room_for(len(body))
        except NoRoomError as problem:
            if self._start is None:
                raise StalledError from problem
            self._is_refused = True
            await problem_response(self._scope, problem)(self._scope, self._receive, self._send)
            return
        with room:
            view = memoryview(body)
            for at in range(0, len(view), PIECE):
                is_last = at + PIECE >= len(view)
                more = message.get("more_body", False) or not is_last
                async with room.stalling():
                    await self._pass_on({**message, "body": view[at : at + PIECE], "more_body": more})

    async def _room_for(self, size: int) -> Share:
        """A share for this many bytes of the answer. Raises NoRoomError, except for a command, which Kafka already
        has."""
        if self._room is not None:
            taken, self._room = self._room, None
            return taken
        answers = self._requests.answers
        return answers.take_now(size) if self._is_command else await answers.take(size, has_begun=self._start is None)

    async def _pass_on(self, message: Message) -> None:
        with self.outside():
            if self._start is not None:
                start, self._start = self._start, None
                await self._send(start)
            await self._send(message)


@contextmanager
def outside(scope: Scope) -> Iterator[None]:
    """Don't count a request, nor the one that it is a part of, in this block, where it waits for somebody else's
    server."""
    request: LimitedRequest = scope[_KEY]
    outer = outer_of(scope)
    with request.outside(), outside(outer) if outer else nullcontext():
        yield


def limit_body(scope: Scope, most_bytes: int) -> None:
    """Reserve at most this many bytes for the body of a request, of which nothing has been read yet."""
    scope[_MOST_BYTES] = most_bytes


async def take_room(scope: Scope, size: int) -> None:
    """Reserve this many bytes for an answer before they are read. Raises NoRoomError."""
    request: LimitedRequest = scope[_KEY]
    await request.take_room(size)


class LaterResponse(Response):
    """A response that is awaited before it is sent; a ProblemError becomes its response.

    Meanwhile the request doesn't count as concurrent, and its body is freed. The wait doesn't count as our response
    time.
    """

    def __init__(self, coming: Callable[[], Awaitable[Response]]) -> None:
        super().__init__()
        self._make = coming

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the response and send it."""
        request: LimitedRequest = scope[_KEY]
        request.give_back_body()
        note_wait(scope)
        with request.outside():
            try:
                response = await self._make()
            except ProblemError as problem:
                response = problem_response(scope, problem)
        await response(scope, receive, send)
