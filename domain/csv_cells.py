"""Text in cells of CSV: nothing that a spreadsheet or a terminal obeys, and the same text when it is read again."""

import re
from typing import Final

# Beginnings that a spreadsheet takes for a formula, also in full width and behind blanks, or drops. Apostrophes are
# part of them, so that a text that looks like a protected one is protected once more, and unprotecting is exact.
_OBEYED: Final = re.compile(r"'*(?:[\t\r\n]|[\s\x00-\x1f]*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_CONTROL: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
# As Office Open XML writes them (ECMA-376, ST_Xstring): _x001B_, and _x005F_ for a _ that looks like the start of one.
_TO_ESCAPE: Final = re.compile(rf"[{_CONTROL}]|_(?=x[0-9A-F]{{4}}[_{_CONTROL}])")
_ESCAPED: Final = re.compile(r"_x(00(?:[0189][0-9A-F]|5F|7F))_")


def cell_of(text: str) -> str:
    """The text as a cell: a leading apostrophe where it would be a formula, and control characters as `_x001B_`."""
    cell = _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
    return f"'{cell}" if _OBEYED.match(cell) else cell


def text_of(cell: str) -> str:
    """The text that `cell_of` made a cell of. Cells of other programs keep theirs, unless they are escaped alike."""
    bare = cell[1:] if cell.startswith("'") and _OBEYED.match(cell) else cell
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), bare)
