"""`plaudit export`: all reviews as JSON Lines or CSV, which `plaudit import` reads."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from api.reviews.rows import ReviewDetails, review_details
from domain.csv_cells import cell_of
from plaudit.cli.terminal import Terminal, shown_json
from plaudit.config import Settings
from plaudit.processes.connections import connected
from plaudit.processes.waiting import patiently
from plaudit.tools.export_feedback import feedback_lines
from plaudit.tools.file_format import FileFormat
from storage.database import in_batches
from storage.reviews import ReviewRepository
from storage.reviews_search import ReviewSearch
from storage.stores import StoreRepository

_NOT_IN_TABLES: Final = ("reply", "flags", "images")
_COLUMNS: Final = tuple(name for name in ReviewDetails.__annotations__ if name not in _NOT_IN_TABLES)
_PAGE: Final = 500


async def run_export(
    settings: Settings, progress: Terminal, search: ReviewSearch, format: FileFormat, output: Path | None
) -> None:
    """Write every review that matches, in the order of ids, to standard output without a file.

    In JSON Lines the votes and reports about a page of reviews follow it. Memory holds a page. A review that is there
    all the time is written once. A file is whole or not there.
    """
    count = 0
    async with connected(settings) as (database, _):
        stores = {store.id: store for store in await patiently("MongoDB", StoreRepository(database).all)}
        with _output(output) as file, progress.status("Exporting reviews") as status:
            write = review_writer(file, format)
            async for reviews in in_batches(ReviewRepository(database).stream(search), _PAGE):
                for review in reviews:
                    write(review_details(review, stores))
                if format is FileFormat.JSONL:
                    async for line in feedback_lines(database, [review.id for review in reviews]):
                        write(line)
                count += len(reviews)
                status.update(f"Exported {count} reviews")
    progress.tell({"exported": count, "output": output and str(output)})
    progress.print(f"Exported {count} reviews.")
    if format is FileFormat.CSV:
        progress.print("Replies, votes, reports, flags and images are not in a table: JSON Lines has them.")


def review_writer(file: BinaryIO, format: FileFormat) -> Callable[[Mapping[str, Any]], object]:
    """Writes reviews into the file one by one, behind a header row in CSV, which leaves some fields out."""
    if format is FileFormat.JSONL:
        return lambda review: file.write(shown_json(orjson.dumps(review).decode()).encode() + b"\n")
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    rows = csv.DictWriter(text, _COLUMNS, extrasaction="ignore")
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
