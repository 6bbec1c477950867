"""Findings of the checks of a running service: `plaudit doctor`, and the API's health."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do if it isn't well."""

    check: str
    level: Level
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def warn(check: str, text: str, advice: str) -> Finding:
    """It works, but needs attention."""
    return Finding(check, Level.WARN, text, advice)


def failed(check: str, text: str, advice: str) -> Finding:
    """The service doesn't work, or not as promised."""
    return Finding(check, Level.FAIL, text, advice)
