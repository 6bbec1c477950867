"""Answers that a client has already, or takes (RFC 9110, sections 12.5.3 and 13.1.2)."""

from __future__ import annotations


def has_it(if_none_match: str, tag: str) -> bool:
    """True if the client names this tag, weak, with a suffix or among others, or has whatever there is (`*`)."""
    return tag in if_none_match or if_none_match.strip() == "*"


def takes_gzip(accept_encoding: str) -> bool:
    """True unless the client doesn't name gzip, or refuses it by a weight of 0."""
    for part in accept_encoding.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if name == "gzip":
            return not any(_is_zero(each) for each in parameters)
    return False


def _is_zero(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and weight.strip().rstrip("0").rstrip(".") in ("", "0")
