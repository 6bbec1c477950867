"""Characters without a visible glyph, and texts that consist of them."""

from typing import Final
from unicodedata import category

IGNORABLE: Final = frozenset(
    [
        *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810)),
        *(*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10)),
        *(0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B)),
        *range(0xE0000, 0xE1000),
    ]
)
"""Characters to ignore where unsupported (Default_Ignorable_Code_Point of Unicode): line break and direction controls,
fillers, joiners, variation selectors, tags."""

_BLANK_BRAILLE: Final = "\u2800"
_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})


def is_blank(text: str) -> bool:
    """True if nothing of a text is visible: it is empty, or consists of spaces and characters without a glyph."""
    if "!" <= text[:1] <= "~":
        return False  # the usual case
    return all(map(_is_invisible, text))


def unless_blank(text: str | None) -> str | None:
    """The text; None if nothing of it is visible."""
    return None if text is None or is_blank(text) else text


def _is_invisible(character: str) -> bool:
    return category(character) in _INVISIBLE_CATEGORIES or ord(character) in IGNORABLE or character == _BLANK_BRAILLE
