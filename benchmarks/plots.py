"""Bar charts as SVG, one for each group, readable on light and dark pages."""

from collections.abc import Sequence
from html import escape
from typing import Final

from benchmarks.comparison import Comparison

_WIDTH: Final = 860
_LEFT: Final = 20
_SPAN: Final = 620
"""Length of the longest bar, in pixels."""

_ROW: Final = 44
_TOP: Final = 40
_COLOURS: Final = {True: "#2f8f4e", False: "#c8502f", None: "#5b7fb5"}
_LONGEST: Final = 2.0
"""Bars are cut off at this multiple of their goal; the figure beside the bar is exact."""


def plot(title: str, comparisons: Sequence[Comparison]) -> str:
    """A bar chart of comparisons, as SVG. Each bar has its own scale, so that all goals are at the same position."""
    height = _TOP + _ROW * len(comparisons) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="24" font-size="16" font-weight="bold" fill="#222222">{escape(title)}</text>',
    ]
    for number, comparison in enumerate(comparisons):
        parts += _bar(comparison, _TOP + _ROW * number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(c: Comparison, top: int) -> list[str]:
    # Without a goal, the scale is chosen so that the largest figure is at one and a half times the goal mark.
    scale = c.goal or max(c.ratios) / 1.5
    low, middle, high = (_x(value / scale) for value in (min(c.ratios), c.median, max(c.ratios)))
    label = f"{c.name} / {c.against}" if c.against else c.name
    figure = f"{c.median:,.3g} {c.unit}".rstrip()
    middle_y = top + 28
    parts = [
        f'<text x="{_LEFT}" y="{top + 14}" fill="#222222">{escape(label)}</text>',
        f'<rect x="{_LEFT}" y="{top + 20}" width="{middle - _LEFT:.1f}" height="16" fill="{_COLOURS[c.met]}"/>',
        f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle_y}" y2="{middle_y}" stroke="#222222" stroke-width="2"/>',
        f'<text x="{_LEFT + _SPAN + 12}" y="{top + 33}" fill="#222222">{escape(figure)}{_goal(c)}</text>',
    ]
    if c.goal is not None:
        x = _x(1.0)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top + 19}" y2="{top + 37}" stroke="#222222" stroke-dasharray="3 2"/>'
        )
    return parts


def _x(share: float) -> float:
    return _LEFT + _SPAN * min(share, _LONGEST) / _LONGEST


def _goal(c: Comparison) -> str:
    if c.goal is None:
        return ""
    sign = {"at least": "≥", "at most": "≤"}[c.bound]
    return f" (goal {sign} {c.goal:g})"
