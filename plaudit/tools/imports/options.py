"""The options of an import, and checks of its files."""

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from plaudit.errors import UsageError
from plaudit.tools.file_format import FileFormat
from plaudit.tools.image_folder import images_beside
from plaudit.tools.imports.checkpoint import checkpoint_of
from plaudit.tools.imports.mapping import ColumnMapping
from plaudit.tools.whole_files import check_folder

REPORT_BEGINS: Final = b'{"line":'
"""The first bytes of every report that isn't empty."""

_NO_TEXT: Final = {
    b"\x1f\x8b": "is compressed with gzip: decompress it",
    b"PK\x03\x04": "is a ZIP file or a workbook: extract it, or save the table as CSV in UTF-8",
    b"\xff\xfe": "is in UTF-16: save it in UTF-8",
    b"\xfe\xff": "is in UTF-16: save it in UTF-8",
}
"""First bytes of files in which every line would be a bad row, with the advice for each."""

_HEAD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of an import."""

    file: Path
    format: FileFormat
    mapping: ColumnMapping
    report: Path | None = None
    dry_run: bool = False
    as_new: bool = False
    with_images: bool = True

    @property
    def image_folder(self) -> Path | None:
        """The folder of images; None if images are left out, and for CSV."""
        return images_beside(self.file) if self.with_images and self.format is FileFormat.JSONL else None

    @property
    def report_file(self) -> Path | None:
        """The report of bad rows; None for a dry run without `report`."""
        if self.report or self.dry_run:
            return self.report
        return self.file.with_name(self.file.name + ".bad-rows.jsonl")

    def check(self) -> None:
        """Raises UsageError: the input is no regular file, in which an import can resume, or the report would be in
        a missing folder, or overwrite the input, its checkpoint, its images, a file that is no report, or one to which
        a link leads that isn't named.
        """
        if not self.file.is_file():
            raise UsageError(
                f"{self.file} is not a regular file, so an interrupted import couldn't continue: save it as one first."
            )
        report = self.report_file
        if report is None:
            return
        if self.report is None and report.is_symlink():
            raise UsageError(
                f"{report} is a symbolic link, and isn't written to: remove it, or name a file by --report."
            )
        ours = (self.file, checkpoint_of(self.file))
        folder = images_beside(self.file).resolve()
        if folder in report.resolve().parents or any(_is_same(report, each) for each in ours):
            raise UsageError(f"{report} is part of the import: name another file for the report of bad rows.")
        check_folder(report.resolve())
        if report.exists() and not _is_report(report):
            raise UsageError(f"{report} exists and is not a report of bad rows: name another file for it.")


def check_text(file: BinaryIO, path: Path) -> None:
    """Raises UsageError: the first bytes of the file are those of a format other than lines of UTF-8 text."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    for beginning, what in _NO_TEXT.items():
        if head.startswith(beginning):
            raise UsageError(f"{path} {what} first.")
    if b"\0" in head[:4]:
        raise UsageError(f"{path} is in UTF-16, or is no text: save it in UTF-8 first.")
    if b"\r" in head.rstrip(b"\r") and b"\n" not in head:
        raise UsageError(f"{path} has carriage returns as line ends: save it with line feeds first.")


def _is_report(file: Path) -> bool:
    """True for a report of an earlier run; one that was killed may have written any part of it."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return REPORT_BEGINS.startswith(opened.read(len(REPORT_BEGINS)))


def _is_same(one: Path, other: Path) -> bool:
    """True if both paths name one file, which needn't exist."""
    return one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other))
