"""Errors of servers as one line."""

import re
from typing import Final

_LONGEST: Final = 300
_DETAILS: Final = re.compile(r" \(configured timeouts|, Timeout: [0-9.]+s, Topology Description")


def first_line(error: BaseException | None) -> str:
    """The first line of an error, without PyMongo's details of timeouts and servers."""
    return _DETAILS.split(str(error).strip().partition("\n")[0], maxsplit=1)[0]


def for_log(error: BaseException | None) -> str:
    """The type and the first line of an error, cut to a length for logs. aiokafka's errors begin with their type."""
    name, line = type(error).__name__, first_line(error)
    return (line if line.startswith(name) else f"{name}: {line}".removesuffix(": "))[:_LONGEST]
