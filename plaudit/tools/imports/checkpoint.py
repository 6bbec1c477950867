"""The progress of an import, kept in a file beside its input."""

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import BaseModel, ValidationError

from plaudit.errors import UsageError, naming
from plaudit.tools.whole_files import draft_of, open_draft, put_on_disk

SUFFIX: Final = ".plaudit-import.json"
_HASHED_BYTES: Final = 64 * 1024


class Checkpoint(BaseModel):
    """The progress of an import: everything before byte `offset`, the end of line `line`, is published or reported."""

    job: str
    """Identifies the import among others of the same file: see `job_of`."""

    offset: int = 0
    line: int = 0
    published: int = 0
    images: int = 0
    without_file: int = 0
    bad: int = 0
    report_bytes: int = 0
    """Bytes of the report that belong to the rows before `offset`."""

    report_sha256: str | None = None
    """SHA-256 of these bytes; None in the checkpoints of earlier versions."""

    left_out: list[str] = []
    """Columns seen so far that map to no field."""

    mapped: list[str] = []
    """Columns of the explicit mapping seen so far."""

    feedback_left_out: int = 0
    latest: dict[str, str] = {}
    """Hashes of the texts of the latest reviews by id."""

    @classmethod
    def read(cls, path: Path, job: str) -> "Checkpoint | None":
        """The checkpoint of this job; None if the file is missing, invalid or of another job.

        Raises UsageError: it is a pipe or a device.
        """
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file, as the progress of an import is kept in: remove it first.")
        try:
            found = cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None
        return found if found.job == job else None

    def write(self, path: Path) -> None:
        """Write the file atomically: a reader finds this checkpoint or the previous one. Raises UsageError, OSError."""
        draft = draft_of(path)
        with naming(path), open_draft(draft, "wb") as file:
            file.write(self.model_dump_json(indent=1).encode())
            put_on_disk(file)
        draft.replace(path)


def checkpoint_of(input_file: Path) -> Path:
    """The path of the checkpoint of an input file."""
    return input_file.with_name(input_file.name + SUFFIX)


def report_digest(report: Path, size: int) -> str:
    """The SHA-256 of the first `size` bytes of a report; of all of a shorter one, and of none of a missing one."""
    digest = hashlib.sha256()
    if report.exists():
        with report.open("rb") as file:
            while size > 0 and (part := file.read(min(size, _HASHED_BYTES))):
                digest.update(part)
                size -= len(part)
    return digest.hexdigest()


def job_of(file: BinaryIO, *options: object) -> str:
    """A digest that identifies an import: of the file's size, mtime and first 64 KiB, and of the options."""
    status = os.fstat(file.fileno())
    file.seek(0)
    identity = repr((status.st_size, status.st_mtime_ns, options)).encode() + file.read(_HASHED_BYTES)
    return hashlib.sha256(identity).hexdigest()
