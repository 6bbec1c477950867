"""Pages of lists as responses. Large ones are read and written in pieces, and are never in memory as a whole."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from types import MappingProxyType
from typing import Any, Final, TypeVar

import orjson
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from api.web.budgets import Budget, NoRoomError, Share, StalledError
from api.web.limits import Slots
from api.web.problems import ProblemError
from api.web.responses import JsonResponse
from messaging.json_values import present

T = TypeVar("T")

ROW_BYTES: Final = 8 * 1024
"""Bytes reserved for a row of a list before its size is known: without long texts, hardly any row is larger."""

PIECE_BYTES: Final = 256 * 1024
"""Stored bytes of a piece of a page, unless one row has more: other requests wait while it is rendered."""

MOST_EXPORTS: Final = 8
"""Maximum number of lists of any length that a process writes while their clients read."""

MOST_EXPORTS_PER_CLIENT: Final = 2

_AT_ONCE: Final = 2
"""Number of pieces that are read and written at a time: small requests wait for no more than those."""

_COPIES: Final = 4
"""Bytes in memory for a stored byte: as BSON, as objects, as JSON."""

_ROW_WITHOUT_TEXT: Final = 2 * 1024


class PageBudget(Budget):
    """The budget for what MongoDB returns for lists, turns for the pieces of large pages, and slots for `exports`,
    which hold their bytes for as long as a client reads."""

    def __init__(self, most: int) -> None:
        super().__init__(most, "pages of")
        self.turns = asyncio.Semaphore(_AT_ONCE)
        self.exports = Slots(most=MOST_EXPORTS, most_per_client=MOST_EXPORTS_PER_CLIENT)

    async def rows(self, count: int) -> Share:
        """A share for this many rows, until their true size is known. Raises NoRoomError."""
        return await self.take(count * ROW_BYTES)

    async def piece(self, stored_bytes: int) -> Share:
        """A share to read and write this many stored bytes. Raises NoRoomError."""
        # The share of its page is held meanwhile.
        return await self.take(stored_bytes * _COPIES, has_begun=True)

    @asynccontextmanager
    async def long_texts(self, stored_bytes: Iterable[int]) -> AsyncIterator[None]:
        """A turn and a share to read long texts of this many bytes each, and to write them. Without any, neither is
        waited for. Raises NoRoomError."""
        size = sum(stored_bytes)
        if not size:
            yield
            return
        async with self.turns:
            with await self.piece(size):
                yield

    async def export(
        self,
        client: str,
        size: int,
        content: AsyncIterator[bytes],
        media_type: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        slots: Slots | None = None,
    ) -> Response:
        """A list of any length, written while this client reads it; it holds a slot, of `exports` by default, and
        `size` bytes until then. Its first part is made here, so that an error can still become a problem; a later error
        closes the connection. Raises NoRoomError."""
        with ExitStack() as held:
            if not held.enter_context((slots or self.exports).take(client)):
                raise NoRoomError("The maximum number of concurrent downloads is reached.")
            with await self.take(size) as room:
                content = _after(await anext(content), content)
                return _PieceByPiece(room.hand_on(), content, media_type, headers, held.pop_all())

    async def response(
        self,
        room: Share,
        about: Mapping[str, Any],
        pieces: Sequence[T],
        render: Callable[[T], Awaitable[Sequence[Any]]],
    ) -> Response:
        """The response of a page: the fields of `about` that aren't None, and its pieces, each rendered as rows in its
        turn. The first one is rendered here, so that a problem can still become the response; a later one that can't be
        rendered closes the connection."""
        about = present(about)
        if len(pieces) <= 1:
            return JsonResponse({**about, "results": await render(pieces[0]) if pieces else []})

        async def write(piece: T) -> bytes:
            async with self.turns:
                return orjson.dumps(await render(piece))[1:-1]

        first = await write(pieces[0])
        head = orjson.dumps({**about, "results": []})[:-2]
        content = _join(head, first, pieces[1:], write)
        return _PieceByPiece(room.hand_on(), content)


def page_bytes(rows: int, text: int) -> int:
    """The bytes in memory of a page with this many rows, and this many characters of text among them."""
    return rows * _ROW_WITHOUT_TEXT + text * _COPIES


def pieces_of(rows: Iterable[T], size: Callable[[T], int]) -> list[list[T]]:
    """The rows in order, in pieces of at most PIECE_BYTES, or of one row; `size` is in bytes."""
    pieces: list[list[T]] = []
    room = 0
    for row in rows:
        needed = size(row)
        if not pieces or needed > room:
            pieces.append([])
            room = PIECE_BYTES
        pieces[-1].append(row)
        room -= needed
    return pieces


async def _after(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    try:
        async for each in others:
            yield each
    except ProblemError as error:
        raise StalledError from error


async def _join(
    head: bytes, first: bytes, pieces: Sequence[T], write: Callable[[T], Awaitable[bytes]]
) -> AsyncIterator[bytes]:
    yield head + first
    before = b"," if first else b""
    del first
    for piece in pieces:
        try:
            rows = await write(piece)
        except ProblemError as error:
            raise StalledError from error
        # Rows may have been deleted since the page was read.
        if rows:
            yield before + rows
            before = b","
    yield b"]}"


class _PieceByPiece(StreamingResponse):
    """A response that keeps its share until it is sent, or until others need it while the client doesn't read."""

    def __init__(
        self,
        room: Share,
        content: AsyncIterator[bytes],
        media_type: str | None = JsonResponse.media_type,
        headers: Mapping[str, str] | None = None,
        held: AbstractContextManager[object] | None = None,
    ) -> None:
        super().__init__(content, headers=headers, media_type=media_type)
        self._room = room
        self._held = held or nullcontext()

    async def stream_response(self, send: Send) -> None:
        """Send the pieces."""

        async def send_within_share(message: Message) -> None:
            async with self._room.stalling():
                await send(message)

        with self._held, self._room:
            await super().stream_response(send_within_share)
