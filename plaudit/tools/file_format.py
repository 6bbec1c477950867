"""The formats of files of reviews."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from domain.reviews import ReviewStatus


class FileFormat(StrEnum):
    """The formats that reviews are read from and written to."""

    CSV = "csv"
    JSONL = "jsonl"

    @classmethod
    def of(cls, file: Path) -> FileFormat:
        """As the file's name says: CSV for `.csv`, else JSON Lines."""
        return cls.CSV if file.suffix.lower() == ".csv" else cls.JSONL


class ReviewStatusName(StrEnum):
    """The names of statuses on the command line."""

    NEW = "New"
    APPROVED = "Approved"
    REJECTED = "Rejected"

    @property
    def status(self) -> ReviewStatus:
        """The status of that name."""
        return ReviewStatus[self.name]
