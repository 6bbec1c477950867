"""Request headers of commands: `Prefer: wait` (RFC 7240), `Idempotency-Key`, and those that commands refuse."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from api.web.problems import ProblemError, ProblemKind

MAX_WAIT_SECONDS: Final = 30
KEY_LENGTH: Final = 255
KEY_PATTERN: Final = "^[!-~]+$"

_PREFERENCE = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_KEY: Final = re.compile(KEY_PATTERN)

_CONDITIONS: Final = frozenset({b"if-match", b"if-none-match", b"if-unmodified-since", b"content-range"})
"""Headers that make a request conditional, or its body a part of another one."""


def wait_seconds(prefer: Sequence[str]) -> int | None:
    """The wait that the client prefers, in whole seconds up to 30; None without a usable preference.

    `prefer` has the lines of the header. By the RFC, unknown preferences are ignored, and only the first `wait` counts.
    """
    for line in prefer:
        for preference in _PREFERENCE.findall(line):
            name, _, value = preference.partition(";")[0].partition("=")
            if name.strip().lower() == "wait":
                return _seconds(value.strip().strip('"'))
    return None


def _seconds(value: str) -> int | None:
    if not (value.isascii() and value.isdecimal()):
        return None
    digits = value.lstrip("0")
    return MAX_WAIT_SECONDS if len(digits) > 2 else min(MAX_WAIT_SECONDS, int(digits or 0))


def idempotency_key(lines: Sequence[str]) -> str | None:
    """The key of the client, or None. Raises ProblemError if it can't be used."""
    if not lines:
        return None
    key = lines[0].strip()
    if len(lines) > 1 or len(key) > KEY_LENGTH or not _KEY.fullmatch(key):
        detail = f"Idempotency-Key must be sent once, with 1 to {KEY_LENGTH} visible ASCII characters."
        raise ProblemError(ProblemKind.INVALID_HEADER, detail)
    return key


def check_unconditional(headers: Iterable[tuple[bytes, bytes]], instead: str) -> None:
    """Raise ProblemError for a header that commands don't evaluate: they would take effect whatever it demands.
    `instead`: a sentence about the condition that the command does evaluate."""
    for name, _ in headers:
        if name in _CONDITIONS:
            header = name.decode().title()
            detail = f"{header} isn't evaluated here, so nothing was accepted: send the request without it."
            raise ProblemError(ProblemKind.INVALID_HEADER, f"{detail} {instead}".rstrip())
