"""The formats of files of reviews."""

from enum import StrEnum
from pathlib import Path


class FileFormat(StrEnum):
    """The formats that reviews are read from and written to."""

    CSV = "csv"
    JSONL = "jsonl"

    @classmethod
    def of(cls, file: Path) -> "FileFormat":
        """As the file's name says: CSV for `.csv`, else JSON Lines."""
        return cls.CSV if file.suffix.lower() == ".csv" else cls.JSONL
