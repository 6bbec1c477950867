"""`plaudit export`: all reviews as JSON Lines or CSV, which `plaudit import` reads."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import orjson
from rich.console import Console

from api.reviews.rows import ReviewDetails, review_details
from plaudit.cli.terminal import shown_json
from plaudit.config import Settings
from plaudit.processes.connections import connected
from plaudit.processes.waiting import patiently
from plaudit.tools.csv_cells import cell_of
from plaudit.tools.file_format import FileFormat
from storage.reviews import ReviewRepository
from storage.reviews_search import ReviewSearch
from storage.stores import StoreRepository

_COLUMNS: Final = tuple(ReviewDetails.__annotations__)
_TOLD_EVERY: Final = 1_000


async def run_export(
    settings: Settings, progress: Console, search: ReviewSearch, format: FileFormat, output: Path | None
) -> None:
    """Write every review that matches, in the order of ids, to standard output without a file.

    Memory holds a page of them. A review that is there all the time is written once. A file is whole or not there.
    """
    count = 0
    async with connected(settings) as (database, _):
        stores = {store.id: store for store in await patiently("MongoDB", StoreRepository(database).all)}
        with _output(output) as file, progress.status("Exporting reviews") as status:
            write = review_writer(file, format)
            async for review in ReviewRepository(database).stream(search):
                write(review_details(review, stores))
                count += 1
                if count % _TOLD_EVERY == 0:
                    status.update(f"Exported {count} reviews")
    progress.print(f"Exported {count} reviews.")


def review_writer(file: BinaryIO, format: FileFormat) -> Callable[[ReviewDetails], object]:
    """Writes reviews into the file one by one, behind a header row in CSV."""
    if format is FileFormat.JSONL:
        return lambda review: file.write(shown_json(orjson.dumps(review).decode()).encode() + b"\n")
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    rows = csv.DictWriter(text, _COLUMNS)
    rows.writeheader()
    return lambda review: rows.writerow(
        {name: cell_of(value) if isinstance(value, str) else value for name, value in review.items()}
    )


@contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The reader closed the pipe; without this, Python would report it again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    draft = path.with_name(path.name + ".draft")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
