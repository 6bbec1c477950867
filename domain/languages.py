"""Language tags (BCP 47), and texts for language detection."""

from typing import Final

DETECTABLE_FROM: Final = 21
"""Minimum number of characters for language detection."""

_REGION_LENGTH: Final = 2
_SCRIPT_LENGTH: Final = 4


def language_tag(text: str) -> str:
    """A tag in the recommended letter case, like zh-Hant-TW (RFC 5646, 2.1.1); an underscore counts as a hyphen."""
    first, *others = text.replace("_", "-").lower().split("-")
    tag, is_extension = first, False
    for part in others:
        tag += f"-{part if is_extension else _in_tag_case(part)}"
        is_extension = is_extension or len(part) == 1
    return tag


def detectable(title: str | None, text: str) -> str | None:
    """The text from which a review's language is detected; None if it is too short."""
    whole = f"{title} {text}" if title else text
    return whole if len(whole) >= DETECTABLE_FROM else None


def _in_tag_case(part: str) -> str:
    if len(part) == _REGION_LENGTH:
        return part.upper()
    return part.capitalize() if len(part) == _SCRIPT_LENGTH and part.isalpha() else part
