"""Contrast of colours as browsers compute them."""

import re
from typing import Final

TEXTS: Final = 4.5
"""Minimum contrast of text (WCAG 2.2, 1.4.3)."""

PARTS: Final = 3.0
"""Minimum contrast of visual information that identifies controls and their state (WCAG 2.2, 1.4.11)."""


def contrast(one: str, other: str) -> float:
    """Contrast of two opaque colours `rgb(r, g, b)` by WCAG 2.2, from 1 to 21."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    found = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour)
    assert found, f"not an opaque colour: {colour}"
    red, green, blue = (_linear(int(part) / 255) for part in found.groups())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
