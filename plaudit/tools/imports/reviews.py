"""`plaudit import`: reviews from a file to Kafka. Each good row takes effect once, each bad row is reported once."""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import orjson
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from domain.quantities import quantity
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic
from plaudit.config import MissingAddressError, Settings
from plaudit.errors import CommandError, naming
from plaudit.processes.connections import connected
from plaudit.processes.waiting import existing_cluster, patiently
from plaudit.terminal import Terminal
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.bad_rows import BadRowError
from plaudit.tools.imports.batch import Batch
from plaudit.tools.imports.checkpoint import Checkpoint, checkpoint_of, job_of, report_digest
from plaudit.tools.imports.columns import SeenColumns
from plaudit.tools.imports.images import Uploader
from plaudit.tools.imports.mapping import listed_columns
from plaudit.tools.imports.messages import LatestReviews, RowReader
from plaudit.tools.imports.options import ImportOptions, check_text
from plaudit.tools.imports.rows import Row, rows_of, with_pauses
from plaudit.tools.servers import check_topics
from plaudit.tools.stores import Registered
from plaudit.tools.whole_files import put_on_disk
from storage.images.mark import ImageStoreMark

BATCH_ROWS: Final = 1_000
_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of messages, of their images and of reasons of bad rows at which a batch ends."""

_SHOWN_BAD_ROWS: Final = 20


async def run_import(settings: Settings, out: Terminal, progress: Terminal, options: ImportOptions) -> int:
    """Import a file; returns the number of bad rows.

    For each batch of rows the images are uploaded, the messages published and acknowledged, the bad rows reported, and
    then the checkpoint is written. A batch that was cut short is repeated: its reviews have the same ids, so each is
    stored once, and the report is truncated to its size in the checkpoint. Memory holds one batch. A dry run without
    addresses of servers doesn't check stores.

    Raises UsageError: the file or the mapping can't be used. Raises CommandError: a topic is missing, or images
    would go into another store than before.
    """
    options.check()
    with options.file.open("rb") as file:
        if not options.dry_run:
            _lock(file)
        check_text(file, options.file)
        names, header = options.mapping.header(file, options.format)
        start = Checkpoint(job="", offset=header.end, line=header.end_line)
        servers = stores = None
        async with AsyncExitStack() as stack:
            if not options.dry_run or _has_servers(settings):
                stores = Registered(settings)
                stack.push_async_callback(stores.close)
            if not options.dry_run:
                start = await _begin(settings, options, file, start, out)
                database, publisher = await stack.enter_async_context(connected(settings))
                servers = _Servers(publisher, Uploader(settings, ImageStoreMark(database)))
            is_text = options.format is FileFormat.CSV
            columns = SeenColumns(options.mapping, start.left_out, start.mapped, as_new=options.as_new)
            latest = LatestReviews(start.latest)
            reader = RowReader(columns, settings.topics, is_text, options.image_folder, latest)
            try:
                await _Import(options, servers, stores, reader, start, progress).run(file, names)
            except asyncio.CancelledError:
                if not options.dry_run:
                    progress.print(f"Interrupted. The same command continues after line {start.line}.")
                raise
        if not options.dry_run:
            # While locked: the next import may start once the lock is released.
            checkpoint_of(options.file).unlink(missing_ok=True)
    _print_result(out, options, start, columns.missing())
    return start.bad


async def _begin(
    settings: Settings, options: ImportOptions, file: BinaryIO, start: Checkpoint, out: Terminal
) -> Checkpoint:
    """The checkpoint of the run that this one continues, else that at the start; written before anything is
    published."""
    # Mapping and destination are part of the job: with another one the import starts at the beginning.
    parts = (options.format, options.mapping, options.as_new, options.with_images, str(options.report_file))
    job = job_of(file, *parts, await _destination(settings))
    found = _resumable_checkpoint(options, job)
    if found is not None:
        out.print(f"Continuing after line {found.line}, where the last run stopped.")
    begun = found or start.model_copy(update={"job": job})
    _write_first(begun, options.file)
    return begun


def _print_result(out: Terminal, options: ImportOptions, done: Checkpoint, missing: list[str]) -> None:
    report = options.report_file if done.bad else None
    counts = {"published": done.published, "images": done.images, "badRows": done.bad, "dryRun": options.dry_run}
    left_out = {"imagesWithoutFile": done.without_file, "feedbackLeftOut": done.feedback_left_out}
    columns = {"leftOut": done.left_out, "missingColumns": missing}
    out.set_result({**counts, **columns, **left_out, "report": report and str(report)})
    what = "Would publish" if options.dry_run else "Published"
    out.print(f"{what} {quantity(done.published, 'review')}; {quantity(done.bad, 'bad row')}.")
    if done.images:
        out.print(f"Images: {done.images:,}, each shown once a worker has rebuilt it.")
    if done.without_file:
        out.print(f"Left out {quantity(done.without_file, 'image')} without a file in the export.")
    if done.feedback_left_out:
        feedback = quantity(done.feedback_left_out, "vote or report", "votes and reports")
        out.print(f"Left out {feedback}: the row of the review is bad or missing.")
    if report:
        out.print(f"Their lines and reasons are in {report}.")
    if done.left_out:
        out.print(f"Left out, because reviews have no such fields: {listed_columns(done.left_out)}.")
    if missing:
        out.print(f"No row has the column {listed_columns(missing)} named by --map.")


@dataclass(frozen=True, slots=True)
class _Servers:
    """Kafka and the image store."""

    publisher: Publisher
    uploader: Uploader

    async def take(self, batch: Batch) -> None:
        """Upload and publish a batch; returns once all of it is stored and acknowledged."""
        await self.uploader.upload(batch.images)
        for messages in (batch.submissions, batch.followers):
            await patiently("Kafka", partial(self.publisher.publish, messages))


@dataclass(slots=True)
class _Import:
    """One run of an import; advances its checkpoint. `servers` is None in a dry run, which changes nothing there."""

    options: ImportOptions
    servers: _Servers | None
    stores: Registered | None
    reader: RowReader
    checkpoint: Checkpoint
    console: Terminal
    report_hash: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    async def run(self, file: BinaryIO, names: list[str]) -> None:
        """Import everything after the checkpoint."""
        size = os.fstat(file.fileno()).st_size
        report_file = self.options.report_file
        with (
            report_file.open("a+b") if report_file else nullcontext() as report,
            _progress(self.console) as progress,
        ):
            if report is not None:
                _lock(report)
                report.truncate(self.checkpoint.report_bytes)
                report.seek(0)
                self.report_hash = hashlib.file_digest(report, "sha256")
            task = progress.add_task("Importing", total=size or 1, completed=self.checkpoint.offset, rows=0, bad=0)
            offset, line, rows = self.checkpoint.offset, self.checkpoint.line, 0
            everything = rows_of(file, self.options.format, names, offset=offset, line=line)
            async for batch in self._batches(everything):
                await self._process(batch, report)
                rows += batch.rows
                progress.update(
                    task,
                    completed=self.checkpoint.offset,
                    rows=rows / max(progress.tasks[0].elapsed or 0, 1e-3),
                    bad=self.checkpoint.bad,
                )
            progress.update(task, completed=size or 1)

    async def _batches(self, rows: Iterator[Row]) -> AsyncIterator[Batch]:
        batch = Batch()
        async for row in with_pauses(rows):
            batch.last = row
            batch.rows += 1
            try:
                batch.add(row.line, self.reader.messages(row))
            except BadRowError as error:
                batch.add_bad(row.line, str(error))
            if max(batch.rows, batch.commands) >= BATCH_ROWS or batch.bytes >= _BATCH_BYTES:
                yield batch
                batch = Batch()
        if batch.rows:
            yield batch

    async def _process(self, batch: Batch, report: BinaryIO | None) -> None:
        checkpoint = self.checkpoint
        if self.stores is not None:
            self.reader.latest.correct(batch.refuse(await self.stores.missing(batch.stores)))
        if self.servers is not None:
            await self.servers.take(batch)
        bad = [{"line": number, "reason": reason} for number, reason in sorted(batch.bad)]
        lines = b"".join(orjson.dumps(each, option=orjson.OPT_APPEND_NEWLINE) for each in bad)
        if report is not None:
            with naming(Path(report.name)):
                report.write(lines)
                put_on_disk(report)
            self.report_hash.update(lines)
        elif checkpoint.bad < _SHOWN_BAD_ROWS:
            for each in bad[: _SHOWN_BAD_ROWS - checkpoint.bad]:
                self.console.print(f"line {each['line']}: {each['reason']}")
        checkpoint.offset, checkpoint.line = batch.last.end, batch.last.end_line
        checkpoint.published += len(batch.submissions)
        checkpoint.images += len(batch.images)
        checkpoint.without_file += batch.without_file
        checkpoint.feedback_left_out += batch.feedback_left_out
        checkpoint.bad += len(bad)
        checkpoint.report_bytes += len(lines)
        checkpoint.report_sha256 = self.report_hash.hexdigest()
        if self.servers is not None:
            checkpoint.write(checkpoint_of(self.options.file))


async def _destination(settings: Settings) -> tuple[str, str]:
    """The id of the Kafka cluster, whatever its address, and the prefix of its topics.

    Raises CommandError: a topic is missing, which the broker might create with other settings.
    """
    needed = (Topic.REVIEW_SUBMISSIONS, Topic.MODERATION_COMMANDS, Topic.REVIEW_FEEDBACK, Topic.IMAGE_UPLOADS)
    await check_topics(settings, [settings.topics.name(topic) for topic in needed])
    return await existing_cluster(settings.kafka_connection()), settings.topics.prefix


def _has_servers(settings: Settings) -> bool:
    try:
        settings.mongo_uri()
    except MissingAddressError:
        return False
    return True


def _resumable_checkpoint(options: ImportOptions, job: str) -> Checkpoint | None:
    found = Checkpoint.read(checkpoint_of(options.file), job)
    report = options.report_file
    if found is None or report is None:
        return None
    known = report.stat().st_size if report.exists() else 0
    # Another import may have replaced the report.
    is_ours = found.report_sha256 in (None, report_digest(report, found.report_bytes))
    return found if known >= found.report_bytes and is_ours else None


def _write_first(checkpoint: Checkpoint, file: Path) -> None:
    """Write a checkpoint before anything is published. Raises CommandError: it can't be written."""
    try:
        checkpoint.write(checkpoint_of(file))
    except OSError as error:
        raise CommandError(
            f"The checkpoint of the import, {checkpoint_of(file)}, can't be written: {error.strerror}. Nothing was "
            "published. Copy the file, with the folder of its images, to a writable folder."
        ) from None


def _lock(file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CommandError(f"Another import of {file.name} is running.") from None
    except OSError as error:
        text = (
            f"{file.name} can't be locked ({error.strerror}), as on NFS: copy it elsewhere, with the folder of its "
            "images."
        )
        raise CommandError(text) from None


def _progress(console: Terminal) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[rows]:,.0f} rows/s  {task.fields[bad]} bad"),
        TimeElapsedColumn(),
        console=console,
    )
