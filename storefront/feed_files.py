"""The files of a store's feed of product reviews, written as its reviews are read: one, or several in a zip."""

import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from io import RawIOBase
from typing import Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

from typing_extensions import Buffer

from domain.feed import MOST_BYTES, feed_foot, feed_head

_ROOM_FOR_THE_END: Final = 1_000
_OPEN: Final = b"<reviews>\n"
_CLOSE: Final = "</reviews>\n"


class Elements(NamedTuple):
    """Reviews of a batch as XML elements, and the number of those that the feed leaves out."""

    text: bytes
    left_out: int


class Piece(NamedTuple):
    """Bytes of a file of the feed; files are counted from 1."""

    file: int
    text: bytes


async def one_file(publisher: str, batches: AsyncIterator[Elements]) -> AsyncIterator[bytes]:
    """The feed as one file of any size: Google deletes reviews that a feed leaves out."""
    async for piece in files(publisher, batches, sys.maxsize):
        yield piece.text


async def zipped(
    publisher: str, batches: AsyncIterator[Elements], most_bytes: int = MOST_BYTES
) -> AsyncIterator[bytes]:
    """The feed in a zip of files of at most `most_bytes` each."""
    buffer = _WriteBuffer()
    with ZipFile(buffer, "w", ZIP_DEFLATED) as archive, ExitStack() as opened:
        number, file = 0, None
        async for piece in files(publisher, batches, most_bytes):
            if file is None or piece.file != number:
                opened.close()
                number = piece.file
                file = opened.enter_context(archive.open(f"product-reviews-{number}.xml", "w"))
            file.write(piece.text)
            if data := buffer.take():
                yield data
    yield buffer.take()


async def files(publisher: str, batches: AsyncIterator[Elements], most_bytes: int) -> AsyncIterator[Piece]:
    """Files of at most `most_bytes`, each a complete feed; one without any reviews. A batch is never divided. The first
    piece has the first batch: an error in reading that is raised before anything was sent."""
    head = feed_head(publisher).encode()
    file, size, left_out = 1, 0, 0
    unsent = head
    async for batch in batches:
        if size and len(head) + size + len(batch.text) + _ROOM_FOR_THE_END > most_bytes:
            yield Piece(file, _end(size, left_out))
            file, size, left_out = file + 1, 0, 0
            unsent = head
        if batch.text and not size:
            unsent += _OPEN
        if text := unsent + batch.text:
            yield Piece(file, text)
        unsent = b""
        size += len(batch.text)
        left_out += batch.left_out
    yield Piece(file, unsent + _end(size, left_out))


def _end(size: int, left_out: int) -> bytes:
    return ((_CLOSE if size else "") + feed_foot(left_out)).encode()


class _WriteBuffer(RawIOBase):
    """A write-only file whose content is removed as it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Buffer) -> int:
        part = bytes(data)
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data
