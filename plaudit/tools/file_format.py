"""The file formats of reviews."""

from enum import StrEnum
from pathlib import Path


class FileFormat(StrEnum):
    """A format that reviews are imported from and exported to."""

    CSV = "csv"
    JSONL = "jsonl"

    @classmethod
    def of(cls, file: Path) -> "FileFormat":
        """The format by the file's name: CSV for `.csv`, else JSON Lines."""
        return cls.CSV if file.suffix.lower() == ".csv" else cls.JSONL
