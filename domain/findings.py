"""Findings of health checks: of `plaudit doctor`, and of the API's health endpoint."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check, shown on one line: the check, its level and text, and advice unless all is well."""

    check: str
    level: Level
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """A finding without a problem."""
    return Finding(check, Level.OK, text)


def warn(check: str, text: str, advice: str) -> Finding:
    """A finding that needs attention while the service works."""
    return Finding(check, Level.WARN, text, advice)


def failed(check: str, text: str, advice: str) -> Finding:
    """A finding that the service doesn't work, or not as promised."""
    return Finding(check, Level.FAIL, text, advice)
