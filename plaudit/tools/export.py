"""`plaudit export`: writes reviews as JSON Lines or CSV, which `plaudit import` reads."""

import codecs
import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from api.reviews.rows import ReviewDetails, review_details
from domain.csv_cells import cells_of
from domain.quantities import quantity
from domain.reviews import Review
from domain.stores import Store
from plaudit.config import Settings
from plaudit.processes.connections import opened_images
from plaudit.processes.waiting import patiently
from plaudit.terminal import Terminal, discard_output, shown, shown_json
from plaudit.tools.export_feedback import feedback_lines
from plaudit.tools.export_images import ImageExport
from plaudit.tools.file_format import FileFormat
from plaudit.tools.image_folder import image_folder, images_beside, remove_folder_before
from plaudit.tools.servers import reached
from plaudit.tools.stores import check_entity_type, check_registered
from plaudit.tools.whole_files import put_on_disk, whole_file
from storage.queries import in_batches
from storage.reviews.exports import ReviewExport
from storage.reviews.search import ReviewSearch
from storage.stores import StoreRepository

_LEFT_OUT: Final = ("pendingImages", "unseenImages", "writtenDate")
"""Fields that are temporary, or that `createdDate` repeats."""

_NOT_IN_CSV: Final = ("reply", "flags", "images", *_LEFT_OUT)
_COLUMNS: Final = tuple(name for name in ReviewDetails.__annotations__ if name not in _NOT_IN_CSV)
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of an export. No `output` means standard output. `with_images` requires JSON Lines and `output`."""

    search: ReviewSearch
    format: FileFormat
    output: Path | None
    with_images: bool

    def folder(self) -> AbstractContextManager[Path | None]:
        """The draft of the folder of images; None without images. Raises UsageError: something else is in its place."""
        return image_folder(images_beside(self.output)) if self.with_images and self.output else nullcontext()


async def run_export(settings: Settings, progress: Terminal, options: ExportOptions) -> int:
    """Write all matching reviews in the order of ids; returns the number of damaged ones and of lost image files.

    In JSON Lines each page of reviews is followed by its votes and reports. Memory holds one page. A review that exists
    throughout the run is written once, unless it is damaged. The file and the folder of its images appear only once
    complete.

    Raises CommandError: the store or a type doesn't exist.
    """
    count = named = 0
    async with reached(settings) as (database, _):
        await check_registered(database, options.search.store_id)
        for entity_type in options.search.entity_types or ():
            await check_entity_type(database, entity_type)
        stores = {store.id: store for store in await patiently("MongoDB", StoreRepository(database).all)}
        with (
            # Its lock protects the folder, too.
            _output(options) as file,
            options.folder() as folder,
            progress.status("Exporting reviews") as status,
        ):
            write = review_writer(file, options.format)
            images = ImageExport(database, partial(opened_images, settings), folder) if folder else None
            source = ReviewExport(database, options.search)
            async for reviews in in_batches(source.whole(), _PAGE):
                for line in await _lines(reviews, stores, images):
                    write(line)
                if options.format is FileFormat.JSONL:
                    ids = [review.id for review in reviews]
                    async for feedback in feedback_lines(database, options.search, ids):
                        write(feedback)
                count += len(reviews)
                named += sum(bool(review.images) for review in reviews)
                status.update(f"Exported {quantity(count, 'review')}")
            if folder:
                # Before the folder is replaced: the disk may be full.
                put_on_disk(file)
    _print_summary(progress, options, source, images, count, named)
    return source.damaged + (images.lost if images else 0)


def _print_summary(
    progress: Terminal, order: ExportOptions, source: ReviewExport, images: ImageExport | None, count: int, named: int
) -> None:
    written, lost = (images.count, images.lost) if images else (0, 0)
    counts = {"exported": count, "damaged": source.damaged, "images": written, "lostImages": lost}
    progress.set_result({**counts, "damagedIds": source.named, "output": order.output and str(order.output)})
    progress.print(f"Exported {quantity(count, 'review')}.")
    if source.damaged:
        more = f" and {source.damaged - len(source.named)} more" if source.damaged > len(source.named) else ""
        left_out = quantity(source.damaged, "damaged review")
        progress.print(f"Left out {left_out}: {', '.join(map(shown, source.named))}{more}.")
        progress.print("`plaudit migrate` repairs such reviews, or lists what is lost.")
    if written and order.output:
        progress.print(f"Wrote {quantity(written, 'image')} to {images_beside(order.output)}.")
    if lost:
        left_out = quantity(lost, "image")
        progress.print(f"Left out {left_out} without a file in the image store: check that workers use the same store.")
    if named and not order.with_images and order.format is FileFormat.JSONL:
        progress.print("Images are listed without their files. To export the files, use -o FILE without --no-images.")
    if order.format is FileFormat.CSV:
        progress.print("CSV has no replies, votes, reports, flags and images. Use JSON Lines to export them.")


async def _lines(
    reviews: Sequence[Review], stores: Mapping[str, Store], images: ImageExport | None
) -> list[Mapping[str, Any]]:
    """The rows of a page of reviews, with their images if those are exported."""
    images_by_review = await images.of(reviews) if images else {}
    details = (review_details(review, stores) for review in reviews)
    rows = [{name: value for name, value in each.items() if name not in _LEFT_OUT} for each in details]
    return [{**row, "images": images_by_review[row["id"]]} if row["id"] in images_by_review else row for row in rows]


def review_writer(file: BinaryIO, format: FileFormat) -> Callable[[Mapping[str, Any]], object]:
    """A function that writes reviews to the file one by one; in CSV after a header row, and without some fields."""
    if format is FileFormat.JSONL:
        return lambda review: file.write(shown_json(orjson.dumps(review).decode()).encode() + b"\n")
    # Unlike io.TextIOWrapper, it doesn't close the file when it is deleted.
    rows = csv.DictWriter(codecs.getwriter("utf-8")(file), _COLUMNS, extrasaction="ignore")
    rows.writeheader()
    return lambda review: rows.writerow(cells_of(review))


@contextmanager
def _output(options: ExportOptions) -> Iterator[BinaryIO]:
    path = options.output
    if path is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            discard_output()  # the reader closed the pipe: it has a part, and gets no summary
            raise
        return
    then = partial(remove_folder_before, images_beside(path)) if options.with_images else None
    with whole_file(path, then) as file:
        yield file
