"""Text in CSV cells, escaped without loss so that no spreadsheet or terminal interprets it."""

import re
from collections.abc import Mapping
from typing import Any, Final

# Prefixes that a spreadsheet drops or takes for a formula, also full-width or after whitespace. Leading apostrophes
# belong to them: a text that looks protected gets another apostrophe, so that removing one is always exact.
_INTERPRETED: Final = re.compile(r"'*(?:[\t\r\n]|[\s\x00-\x1f]*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_CONTROL: Final = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
# Escapes of Office Open XML (ECMA-376, ST_Xstring): _x001B_, and _x005F_ for a _ that looks like the start of one.
_TO_ESCAPE: Final = re.compile(rf"[{_CONTROL}]|_(?=x[0-9A-F]{{4}}[_{_CONTROL}])")
_ESCAPED: Final = re.compile(r"_x(00(?:[0189][0-9A-F]|5F|7F))_")


def cell_of(text: str) -> str:
    """The text as a cell: an apostrophe before a would-be formula, and control characters as `_x001B_`."""
    cell = _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)
    return f"'{cell}" if _INTERPRETED.match(cell) else cell


def cells_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its texts as cells; other values are unchanged."""
    return {name: cell_of(value) if isinstance(value, str) else value for name, value in row.items()}


def text_of(cell: str) -> str:
    """The inverse of `cell_of`. Cells of other programs keep their text, unless they use the same escapes."""
    bare = cell[1:] if cell.startswith("'") and _INTERPRETED.match(cell) else cell
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), bare)
