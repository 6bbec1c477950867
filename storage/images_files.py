"""The store of images: a folder or S3. Uploads as they came in `incoming/`, rebuilt ones in `images/`."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError, GenericError
from obstore.store import LocalStore, MemoryStore, S3Store

from domain.images import SIZES

Store = LocalStore | MemoryStore | S3Store

_TIMEOUT: Final = timedelta(seconds=20)
_RETRIES: Final = 2
_SHORT: Final = timedelta(seconds=5)
_NOT_FOR_FOLDERS: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})
"""Errors of file systems that keep folders by themselves, and of folders that can be written and not read."""
MARK: Final = "images/plaudit.txt"
"""The file that marks the store as the one that is used, below a path that the rights to the store have to cover."""

_MARK_SAYS: Final = (
    b"Plaudit keeps images here. Without this file it takes the store for another one: keep it, copy it.\n"
)

_WRITTEN_FOR: Final = timedelta(hours=1)
"""No file is still being written after that."""
_AT_ONCE: Final = 16
"""Files that are removed at the same time: one request for many is known to S3 alone, and not to all that speak it."""


def open_store(address: str) -> Store:
    """The store at `s3://bucket/prefix`, or a folder, which is created. Credentials of S3 come by the environment
    (`AWS_*`). Raises ValueError for another address, OSError for a folder that can't be used."""
    if address.startswith("s3://"):
        # Its tries all together must end before whoever asked gives up.
        return S3Store.from_url(
            address,
            client_options={"timeout": _TIMEOUT, "connect_timeout": _SHORT, "allow_http": _allows_http()},
            retry_config={"max_retries": _RETRIES, "retry_timeout": _SHORT},
        )
    if "://" in address:
        raise ValueError("Use s3://bucket/prefix, or the path of a folder")
    folder = Path(address).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return LocalStore(folder, automatic_cleanup=True)


def _allows_http() -> bool:
    """The variable of S3 clients for a server without TLS, which options in the code would override."""
    return os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"


class FoundFile(NamedTuple):
    """A file of which nothing is read yet: its size in bytes, and the function that reads all of it, once."""

    size: int
    read: Callable[[], Awaitable[bytes]]


class ImageFiles:
    """Reads and writes the files of images. Whatever a store raises means that it is unavailable (`is_store_away`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put_upload(self, id: str, digest: str, content: bytes) -> None:
        """Keep an upload; returns once the store has it. `digest`: of the content."""
        await self._put(_upload(id, digest), content)

    async def upload(self, id: str, digest: str) -> bytes | None:
        """An upload as it came, or None."""
        return await self._read(_upload(id, digest))

    async def has_upload(self, id: str) -> bool:
        """True if an upload with this id is kept, or what was made of it."""
        for folder in ("incoming", "images"):
            listed = await obstore.list_with_delimiter_async(self._store, prefix=f"{folder}/{id}")
            if listed["objects"]:
                return True
        return False

    async def remove_upload(self, id: str, digest: str) -> None:
        """Remove an upload; one that isn't there is removed already."""
        await self._remove([_upload(id, digest)])

    async def put(self, id: str, files: Sequence[bytes]) -> None:
        """Write the files of an image, one for each of SIZES."""
        for size, content in zip(SIZES, files, strict=True):
            await self._put(_file(id, size), content)

    async def get(self, id: str, size: int) -> bytes | None:
        """One file of an image, or None."""
        return await self._read(_file(id, size))

    async def find(self, id: str, size: int) -> FoundFile | None:
        """One file of an image before it is read, or None."""
        return await self._find(_file(id, size))

    async def remove(self, ids: Collection[str]) -> set[str]:
        """Remove all files of images, and what a process that died has left of one; those that aren't there are removed
        already. Returns the ids of those of which one can't be removed."""
        files = {_file(id, size): id for id in ids for size in SIZES}
        if folder := self._folder:
            # Here alone: to look at the images of all reviews takes long, and their folders stay.
            of_images = [folder / "images" / id for id in ids]
            await asyncio.to_thread(_remove_remains, of_images, datetime.now(UTC) - _WRITTEN_FOR)
        return {files[path] for path in await self._remove(list(files))}

    async def mark(self) -> None:
        """Mark the store as the one that is used."""
        await self._put(MARK, _MARK_SAYS)

    async def is_marked(self) -> bool:
        """True if the store has the mark."""
        return await self._read(MARK) is not None

    async def probe(self) -> None:
        """Write, find, read and remove a file, and look for one that isn't there. Raises what the store raises, also
        OSError."""
        path = f"incoming/probe-{uuid4()}"
        await self._put(path, b"probe")
        if await self._read(path) != b"probe":
            raise OSError("what is written isn't there afterwards")
        # By rights of their own: without the one to list, S3 refuses to tell that a file is missing.
        await obstore.list_with_delimiter_async(self._store, prefix="incoming")
        await self._remove([path])
        if await self._read(path) is not None:
            raise OSError("what is removed is there afterwards")

    async def remove_old_uploads(self, before: datetime) -> int:
        """Remove uploads from before that moment, and what a process that died has left of one; returns how many."""
        if folder := self._folder:
            of_uploads = await asyncio.to_thread(lambda: [*(folder / "incoming").glob("*")])
            await asyncio.to_thread(_remove_remains, of_uploads, before)
        old: list[str] = []
        async for listed in obstore.list(self._store, prefix="incoming"):
            old += [each["path"] for each in listed if each["last_modified"] < before]
        return len(old) - len(await self._remove(old))

    @property
    def _folder(self) -> Path | None:
        """The folder that is the store, if one is."""
        return Path(self._store.prefix) if isinstance(self._store, LocalStore) and self._store.prefix else None

    async def _put(self, path: str, content: bytes) -> None:
        try:
            await obstore.put_async(self._store, path, content, use_multipart=False)
        except FileNotFoundError as error:
            # Of a bucket that isn't there, or not behind what answers in its place: no file is missing.
            raise GenericError(f"{path} has no place: {error}") from error
        if folder := self._folder:
            await asyncio.to_thread(_put_on_disk, folder, path)

    async def _read(self, path: str) -> bytes | None:
        found = await self._find(path)
        return None if found is None else await found.read()

    async def _find(self, path: str) -> FoundFile | None:
        try:
            found = await obstore.get_async(self._store, path)
        except FileNotFoundError:
            return None

        async def read() -> bytes:
            return bytes(await found.bytes_async())

        return FoundFile(found.meta["size"], read)

    async def _remove(self, paths: Sequence[str]) -> list[str]:
        """Remove files; returns those that stay. Raises what the store raises where it removes none of those that it
        is asked for at the same time, nor says of one that isn't there that it is gone: it is away."""
        left, is_there = list[str](), False
        for start in range(0, len(paths), _AT_ONCE):
            part = paths[start : start + _AT_ONCE]
            outcomes = await asyncio.gather(*map(self._remove_one, part), return_exceptions=True)
            failed = {path: each for path, each in zip(part, outcomes, strict=True) if each is not None}
            for error in failed.values():
                if not is_store_away(error):
                    raise error
            if len(failed) == len(part) and not is_there:
                await self._remove_one(f"incoming/{uuid4()}")
                is_there = True
            left += failed
        return left

    async def _remove_one(self, path: str) -> None:
        with suppress(FileNotFoundError):
            await obstore.delete_async(self._store, path)


def _put_on_disk(folder: Path, path: str) -> None:
    """Have a file that is written on the disk, and all that leads to it, where its file system can do that of folders:
    it stays there also if the power goes.

    Raises GenericError where the disk fails. A file that somebody has removed meanwhile needs no place.
    """
    try:
        _sync(folder / path)
        for parent in PurePosixPath(path).parents:
            try:
                _sync(folder / parent)
            except OSError as error:
                if error.errno not in _NOT_FOR_FOLDERS:
                    raise
    except FileNotFoundError:
        return
    except OSError as error:
        raise GenericError(f"{folder / path}: {error}") from error


def _remove_remains(folders: Iterable[Path], before: datetime) -> None:
    """Remove files in these folders that have the names that they have while they are written: no listing of the store
    has them. What can't be removed stays, and what somebody else has removed meanwhile is gone."""
    for folder in folders:
        with suppress(OSError):
            for path in folder.glob("*#*"):
                if path.stat().st_mtime < before.timestamp():
                    path.unlink()
                    with suppress(OSError):  # other files are beside it
                        folder.rmdir()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_in_memory() -> ImageFiles:
    """A store of this process alone, for one that isn't to keep images."""
    return ImageFiles(MemoryStore())


def is_store_away(error: BaseException) -> bool:
    """True for an error of the store of images: it is unavailable, full, or refuses us for now."""
    return isinstance(error, BaseError)


def _upload(id: str, digest: str) -> str:
    return f"incoming/{id}/{digest}"


def _file(id: str, size: int) -> str:
    return f"images/{id}/{size}"
