"""The columns of a file that map to no field, to be named at the end of an import."""

from collections.abc import Mapping
from typing import Any, Final

from api.reviews.rows import ReviewDetails
from plaudit.tools.imports.bad_rows import cut
from plaudit.tools.imports.mapping import FIELDS, ColumnMapping
from plaudit.tools.imports.past import is_exported

_MAX_NAMES: Final = 1_000
_EXPORTED_FIELDS: Final = frozenset(ReviewDetails.__annotations__) - frozenset(FIELDS)


class SeenColumns:
    """Adds columns of rows to `left_out`, if they map to no field, and to `mapped`, if the explicit mapping has them.

    `as_new`: the past in a row of our own export is left out, too. Each list holds at most 1,000 names, which are cut.
    """

    def __init__(self, mapping: ColumnMapping, left_out: list[str], mapped: list[str], *, as_new: bool) -> None:
        self._mapping = mapping
        self._left_out = left_out
        self._mapped = mapped
        self._as_new = as_new
        self._noted: tuple[set[str], set[str]] = (set(), set())

    def note(self, columns: Mapping[str, Any]) -> None:
        """Note the columns of a row."""
        has_past = not self._as_new and is_exported(columns)
        for column in self._mapping.explicit.keys() & columns.keys():
            _add(self._mapped, column)
        noted = self._noted[has_past]
        if columns.keys() <= noted or len(noted) >= _MAX_NAMES:
            return
        for column in columns:
            if self._mapping.field_of(column) is None and not (has_past and column in _EXPORTED_FIELDS):
                _add(self._left_out, cut(column))
        noted.update(map(cut, columns))

    def missing(self) -> list[str]:
        """The columns of the explicit mapping that no row has had."""
        return [column for column in self._mapping.explicit if column not in self._mapped]


def _add(names: list[str], name: str) -> None:
    if name not in names and len(names) < _MAX_NAMES:
        names.append(name)
