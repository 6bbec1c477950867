"""The image store, a folder or S3: uploads as received in `incoming/`, rebuilt images in `images/`."""

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

from domain.delivery import in_parts
from domain.images import SIZES

Store = LocalStore | MemoryStore | S3Store

_TIMEOUT: Final = timedelta(seconds=20)
_RETRIES: Final = 2
_SHORT_TIMEOUT: Final = timedelta(seconds=5)
_IGNORED_FOLDER_ERRORS: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})
"""Errors of syncing folders that are ignored: of file systems that persist folders by themselves, and of folders that
can be written but not read."""
MARK: Final = "images/plaudit.txt"
"""The file that marks the store as the one in use, below a path that the rights to the store have to cover."""

_MARK_CONTENT: Final = (
    b"Plaudit keeps images here. Without this file it takes the store for another one: keep it, copy it.\n"
)

_LONGEST_WRITE: Final = timedelta(hours=1)
"""The age after which no file is still being written."""
_AT_ONCE: Final = 16
"""The number of files removed concurrently: not all servers with the protocol of S3 have `DeleteObjects`."""


def open_store(address: str) -> Store:
    """Open the store at `s3://bucket/prefix`, or a folder, which is created if missing. Credentials for S3 come from
    the environment (`AWS_*`). Raises ValueError for any other address, OSError for an unusable folder."""
    if address.startswith("s3://"):
        # All its attempts together must end before the caller gives up.
        return S3Store.from_url(
            address,
            client_options={"timeout": _TIMEOUT, "connect_timeout": _SHORT_TIMEOUT, "allow_http": _allows_http()},
            retry_config={"max_retries": _RETRIES, "retry_timeout": _SHORT_TIMEOUT},
            # Without it, obstore sends even the removal of a single file as `DeleteObjects`.
            disable_bulk_delete=True,
        )
    if "://" in address:
        raise ValueError("Use s3://bucket/prefix, or the path of a folder")
    folder = Path(address).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return LocalStore(folder, automatic_cleanup=True)


def _allows_http() -> bool:
    """True if the environment allows S3 servers without TLS; options in the code would override its variable."""
    return os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true"


class FoundFile(NamedTuple):
    """A file that is not read yet: its size in bytes, and the function that reads all of it, once."""

    size: int
    read: Callable[[], Awaitable[bytes]]


class ImageFiles:
    """Reads and writes the files of images. Any error means that the store is unavailable (`is_image_store_away`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def put_upload(self, id: str, digest: str, content: bytes) -> None:
        """Store an upload; returns once the store has it. `digest` is that of the content."""
        await self._put(_upload(id, digest), content)

    async def upload(self, id: str, digest: str) -> bytes | None:
        """An upload as received, or None."""
        return await self._read(_upload(id, digest))

    async def has_upload(self, id: str) -> bool:
        """True if an upload with this id is stored, or the image made of it."""
        for folder in ("incoming", "images"):
            listed = await obstore.list_with_delimiter_async(self._store, prefix=f"{folder}/{id}")
            if listed["objects"]:
                return True
        return False

    async def remove_upload(self, id: str, digest: str) -> None:
        """Remove an upload; a missing one is no error."""
        await self._remove([_upload(id, digest)])

    async def put(self, id: str, files: Sequence[bytes]) -> None:
        """Write the files of an image, one for each of SIZES."""
        for size, content in zip(SIZES, files, strict=True):
            await self._put(_file(id, size), content)

    async def get(self, id: str, size: int) -> bytes | None:
        """One file of an image, or None."""
        return await self._read(_file(id, size))

    async def find(self, id: str, size: int) -> FoundFile | None:
        """One file of an image, not yet read, or None."""
        return await self._find(_file(id, size))

    async def remove(self, ids: Collection[str]) -> set[str]:
        """Remove all files of images, including remains that a dead process left while writing one; missing files are
        no error. Returns the ids of images with a file that can't be removed."""
        files = {_file(id, size): id for id in ids for size in SIZES}
        if folder := self._folder:
            # Only in these folders: those of the images of all reviews stay, and scanning them takes long.
            of_images = [folder / "images" / id for id in ids]
            await asyncio.to_thread(_remove_remains, of_images, datetime.now(UTC) - _LONGEST_WRITE)
        return {files[path] for path in await self._remove(list(files))}

    async def mark(self) -> None:
        """Mark the store as the one in use."""
        await self._put(MARK, _MARK_CONTENT)

    async def is_marked(self) -> bool:
        """True if the store has the mark."""
        return await self._read(MARK) is not None

    async def probe(self) -> None:
        """Write, read, list and remove a file, and look for a missing one. Raises the store's errors and OSError."""
        path = f"incoming/probe-{uuid4()}"
        await self._put(path, b"probe")
        if await self._read(path) != b"probe":
            raise OSError("a written file can't be found")
        # Listing is a separate right: without it, S3 refuses to report that a file is missing.
        await obstore.list_with_delimiter_async(self._store, prefix="incoming")
        await self._remove([path])
        if await self._read(path) is not None:
            raise OSError("a removed file still exists")

    async def remove_old_uploads(self, before: datetime) -> int:
        """Remove uploads from before this moment, and remains that a dead process left while writing one; returns the
        number of uploads removed."""
        if folder := self._folder:
            of_uploads = await asyncio.to_thread(lambda: [*(folder / "incoming").glob("*")])
            await asyncio.to_thread(_remove_remains, of_uploads, before)
        old: list[str] = []
        async for listed in obstore.list(self._store, prefix="incoming"):
            old += [each["path"] for each in listed if each["last_modified"] < before]
        return len(old) - len(await self._remove(old))

    @property
    def _folder(self) -> Path | None:
        """The folder that is the store; None for other stores."""
        return Path(self._store.prefix) if isinstance(self._store, LocalStore) and self._store.prefix else None

    async def _put(self, path: str, content: bytes) -> None:
        try:
            await obstore.put_async(self._store, path, content, use_multipart=False)
        except FileNotFoundError as error:
            # The bucket is missing, or isn't behind the server that answers in its place: no file is missing.
            raise GenericError(f"{path} is not usable: {error}") from error
        if folder := self._folder:
            await asyncio.to_thread(_sync_with_folders, folder, path)

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

    async def _remove(self, paths: Iterable[str]) -> list[str]:
        """Remove files; returns those that stay. If all files of one batch fail, it removes a missing file as a probe
        and raises the store's error where that fails, too: the store is unavailable."""
        left, is_available = list[str](), False
        for part in in_parts(paths, _AT_ONCE):
            outcomes = await asyncio.gather(*map(self._remove_one, part), return_exceptions=True)
            failed = {path: each for path, each in zip(part, outcomes, strict=True) if each is not None}
            for error in failed.values():
                if not is_image_store_away(error):
                    raise error
            if len(failed) == len(part) and not is_available:
                await self._remove_one(f"incoming/{uuid4()}")
                is_available = True
            left += failed
        return left

    async def _remove_one(self, path: str) -> None:
        with suppress(FileNotFoundError):
            await obstore.delete_async(self._store, path)


def _sync_with_folders(folder: Path, path: str) -> None:
    """Sync a file to the disk, and all folders that lead to it where the file system supports that, so that it survives
    a power failure.

    Raises GenericError if the disk fails. A file that was removed meanwhile needs no sync.
    """
    try:
        _sync(folder / path)
        for parent in PurePosixPath(path).parents:
            try:
                _sync(folder / parent)
            except OSError as error:
                if error.errno not in _IGNORED_FOLDER_ERRORS:
                    raise
    except FileNotFoundError:
        return
    except OSError as error:
        raise GenericError(f"{folder / path}: {error}") from error


def _remove_remains(folders: Iterable[Path], before: datetime) -> None:
    """Remove partly written files older than `before` from these folders, by their temporary names; listings of the
    store leave these out. Files that can't be removed stay, and those that others removed meanwhile are no error."""
    for folder in folders:
        with suppress(OSError):
            for path in folder.glob("*#*"):
                if path.stat().st_mtime < before.timestamp():
                    path.unlink()
                    with suppress(OSError):  # other files are in it
                        folder.rmdir()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_in_memory() -> ImageFiles:
    """A store in the memory of this process, for a process that is not to keep images."""
    return ImageFiles(MemoryStore())


def is_image_store_away(error: BaseException) -> bool:
    """True for an error of the image store: it is unavailable, full, or refuses us for now."""
    return isinstance(error, BaseError)


def _upload(id: str, digest: str) -> str:
    return f"incoming/{id}/{digest}"


def _file(id: str, size: int) -> str:
    return f"images/{id}/{size}"
