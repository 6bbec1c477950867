"""The file `.env`: nothing in it is left out because it can't be read."""

from __future__ import annotations

from pathlib import Path

from dotenv.parser import parse_stream
from pydantic_settings import SettingsError


class DotEnvError(SettingsError):
    """A line of `.env` can't be read; without it another value would hold than the one that is meant."""


def check_dotenv(file: Path) -> None:
    """Raises DotEnvError for a line that sets nothing; OSError or UnicodeDecodeError for what is no text."""
    if not file.is_file():
        return
    with file.open(encoding="utf-8") as lines:
        for part in parse_stream(lines):
            if part.error:
                text = part.original.string
                empty = text[: len(text) - len(text.lstrip())].count("\n")
                raise DotEnvError(f"{file}, line {part.original.line + empty}: Write NAME=value, and close each quote.")
