"""The progress of an import, kept in a file beside its input."""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import BaseModel, ValidationError

from plaudit.tools.whole_files import put_on_disk

SUFFIX: Final = ".plaudit-import.json"
_HASHED_BYTES: Final = 64 * 1024


class Checkpoint(BaseModel):
    """Everything before byte `offset`, the end of line `line`, is done: published, or reported in the first
    `report_bytes` of the report. `job` tells this import from others of the same file. `left_out` are the columns that
    no field is made of so far, `mapped` those of the mapping that were there, `latest` the texts of the latest
    reviews, none for bad rows."""

    job: str
    offset: int = 0
    line: int = 0
    published: int = 0
    images: int = 0
    without_file: int = 0
    bad: int = 0
    report_bytes: int = 0
    left_out: list[str] = []
    mapped: list[str] = []
    feedback_left_out: int = 0
    latest: dict[str, str | None] = {}

    @classmethod
    def read(cls, path: Path, job: str) -> "Checkpoint | None":
        """The checkpoint of that job, None if there is none."""
        try:
            found = cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return found if found.job == job else None

    def write(self, path: Path) -> None:
        """Write it, so that a reader finds this one or the one before."""
        draft = path.with_name(path.name + ".draft")
        with draft.open("wb") as file:
            file.write(self.model_dump_json(indent=1).encode())
            put_on_disk(file)
        draft.replace(path)


def checkpoint_of(input_file: Path) -> Path:
    """The checkpoint file of an input."""
    return input_file.with_name(input_file.name + SUFFIX)


def job_of(file: BinaryIO, *options: object) -> str:
    """Tells one import from another: by the file's size, time and beginning, and by the options."""
    status = os.fstat(file.fileno())
    file.seek(0)
    identity = repr((status.st_size, status.st_mtime_ns, options)).encode() + file.read(_HASHED_BYTES)
    return hashlib.sha256(identity).hexdigest()
