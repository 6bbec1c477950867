"""Errors of servers as one line."""

import re
from typing import Final

_DETAILS: Final = re.compile(r" \(configured timeouts|, Timeout: [0-9.]+s, Topology Description")


def first_line(error: BaseException | None) -> str:
    """The first line of an error, without PyMongo's details of timeouts and servers."""
    return _DETAILS.split(str(error).strip().partition("\n")[0], maxsplit=1)[0]
