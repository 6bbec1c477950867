"""`plaudit audit archive`: moves old entries of the audit log from the database into a file."""

import gzip
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from api.audit import AuditRow
from domain.delivery import in_parts
from domain.quantities import quantity
from plaudit.config import Settings
from plaudit.errors import CommandError, UsageError, naming
from plaudit.terminal import Terminal
from plaudit.tools.servers import reached
from plaudit.tools.whole_files import check_folder, draft_of, locked_draft, put_on_disk
from storage.audit import AuditEntry
from storage.audit_archives import Archive, ArchivedEntry, AuditArchives

_BATCH: Final = 1_000


async def archive(
    settings: Settings, out: Terminal, progress: Terminal, before: datetime | None, file: Path, *, is_lost: bool
) -> None:
    """Write the entries that took effect before a moment into a new file, then remove them from the database.

    The file is gzip with one JSON object per line, and appears only once complete. Entries are removed after the file
    has been read back. If a run is killed, the next one finishes its archive first; `is_lost` gives up one whose file
    is missing or damaged. Raises CommandError and UsageError.
    """
    before = _moment(settings.audit.keep_days, before, datetime.now(UTC))
    async with reached(settings) as (database, _):
        archives = AuditArchives(database)
        unfinished, finished = await archives.unfinished(), None
        if unfinished is not None and is_lost and not _is_intact(unfinished):
            await archives.finish(unfinished)
        elif unfinished is not None:
            await _finish(archives, unfinished, out, progress)
            finished = {"archived": unfinished.entries, "file": unfinished.file}
            out.set_result({"archived": 0, "file": None, "finished": finished})
            if unfinished.file == str(file):
                out.set_result({**finished, "finished": None})
                return
        with _draft(file) as draft:
            begun = await _begin(archives, file, draft, before)
            if begun.entries:
                await _finish(archives, begun, out, progress)
            else:
                out.print(f"No entries are older than {before.isoformat()}.")
        out.set_result({"archived": begun.entries, "file": str(file) if begun.entries else None, "finished": finished})


def _moment(keep_days: int | None, before: datetime | None, now: datetime) -> datetime:
    """The moment before which entries are archived. Raises UsageError: none is set, or it is too recent."""
    kept = None if keep_days is None else now - timedelta(days=keep_days)
    if before is None and kept is None:
        raise UsageError("Choose the entries with --before, or set PLAUDIT_AUDIT__KEEP_DAYS to archive all older ones.")
    if before is not None and before > (kept or now):
        raise UsageError(
            f"--before is too late: entries since {(kept or now).isoformat()} stay (PLAUDIT_AUDIT__KEEP_DAYS, or now)."
        )
    return before or kept or now


@contextmanager
def _draft(file: Path) -> Iterator[BinaryIO]:
    """The empty draft of an archive, locked against other runs."""
    check_folder(file)
    with naming(file), locked_draft(file) as draft:
        # Under the lock: another run may have completed this very file.
        if file.exists():
            _remove_draft(file)
            raise UsageError(f"{file} already exists. Name another file: an archive is never overwritten.")
        yield draft


def _remove_draft(file: Path) -> None:
    draft_of(file).unlink(missing_ok=True)


async def _write(entries: AsyncIterator[ArchivedEntry], draft: BinaryIO) -> int:
    """Write entries to the disk; returns their number."""
    count = 0
    with gzip.GzipFile(filename="", fileobj=draft, mode="wb") as lines:
        async for id, entry in entries:
            lines.write(orjson.dumps({"id": id, **AuditRow.of(_without_author(entry))}) + b"\n")
            count += 1
    put_on_disk(draft)
    return count


def _without_author(entry: AuditEntry) -> AuditEntry:
    """The entry without the name of a customer: an erasure couldn't remove it from a file."""
    return entry._replace(subject=None) if entry.may_be_of_customer else entry


async def _begin(archives: AuditArchives, file: Path, draft: BinaryIO, before: datetime) -> Archive:
    """Write the draft and record the archive; from then on any run finishes it. Without entries no file is left."""
    try:
        written = await _write(archives.entries_before(before), draft)
        begun = Archive(str(file), _sha256(draft_of(file)), written)
        if sum(map(len, _ids_in(draft_of(file)))) != written:
            raise CommandError(f"{file} does not read back as it was written; nothing was removed. Check the disk.")
    except BaseException:
        _remove_draft(file)
        raise
    if not written:
        _remove_draft(file)
    elif not await archives.begin(begun):
        _remove_draft(file)
        raise CommandError("Another run is archiving; nothing was removed. Run this again once it has finished.")
    return begun


async def _finish(archives: AuditArchives, begun: Archive, out: Terminal, progress: Terminal) -> None:
    """Rename the draft to its final name, and remove its entries from the database."""
    if not _is_intact(begun):
        raise CommandError(
            f"The archive {begun.file} was interrupted, and its file is missing or changed: "
            f"{quantity(begun.entries, 'entry', 'entries')}, SHA-256 {begun.sha256}. Restore it and run this "
            "again. If it is lost, use --lost to archive the entries that are still in the log."
        )
    file = Path(begun.file)
    # Nothing is removed before the file has its final name.
    if _is_draft(file) and sum([await archives.count(ids) for ids in _ids_in(draft_of(file))]) != begun.entries:
        await archives.finish(begun)
        _remove_draft(file)
        raise CommandError("Another run has archived some of these entries in the meantime. Run this again.")
    with progress.status("Removing entries"):
        for ids in _ids_in(_put_in_place(file)):
            await archives.remove(ids)
    await archives.finish(begun)
    out.print(f"Archived {quantity(begun.entries, 'entry', 'entries')} in {begun.file}.")


def _is_intact(begun: Archive) -> bool:
    """True if the archive, or its draft before the rename, is there as it was written."""
    file = Path(begun.file)
    found = draft_of(file) if _is_draft(file) else file
    return found.is_file() and _sha256(found) == begun.sha256


def _is_draft(file: Path) -> bool:
    return not file.exists()


def _put_in_place(file: Path) -> Path:
    """The archive under its final name, on the disk."""
    if _is_draft(file):
        draft_of(file).rename(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return file


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _ids_in(file: Path) -> Iterator[list[str]]:
    """The ids of the entries in an archive, in batches."""
    with gzip.open(file) as lines:
        yield from in_parts((orjson.loads(line)["id"] for line in lines), _BATCH)
