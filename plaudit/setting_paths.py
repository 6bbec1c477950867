"""Folders and files, as they are configured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator


def _folder(told: str | Path) -> Path:
    """The path, where a folder is or can be, `~` being the user's home; raises ValueError."""
    if not told:
        raise ValueError("it is empty: name a folder, or leave it out")
    try:
        path = Path(told).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{told} can't be used: {error}") from error
    there = next((each for each in (path, *path.parents) if os.access(each, os.F_OK)), None)
    if there is not None and not there.is_dir():
        raise ValueError(f"{there} is not a folder")
    return path


DataFolder = Annotated[Path, BeforeValidator(_folder)]

OptionalFile = Annotated[Path | None, BeforeValidator(lambda told: told or None)]
"""None also for an empty name, which templates of an environment leave, and which is else this folder itself."""
