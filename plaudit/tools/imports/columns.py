"""The columns of a file that map to no field, to be named at the end of an import."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from api.reviews.rows import ReviewDetails
from plaudit.tools.imports.bad_rows import cut
from plaudit.tools.imports.mapping import FIELDS, ColumnMapping
from plaudit.tools.imports.past import is_exported

_MAX_NAMES: Final = 1_000
_EXPORTED_FIELDS: Final = frozenset(ReviewDetails.__annotations__) - frozenset(FIELDS)


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """Adds columns of rows to `left_out`, if they map to no field, and to `mapped`, if the explicit mapping has them.

    `as_new`: the past in a row of our own export is left out, too. Each list holds at most 1,000 names, which are cut.
    """

    mapping: ColumnMapping
    left_out: list[str]
    mapped: list[str]
    as_new: bool
    _noted: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))

    def note(self, columns: Mapping[str, Any]) -> None:
        """Note the columns of a row."""
        has_past = not self.as_new and is_exported(columns)
        for column in self.mapping.explicit.keys() & columns.keys():
            _add(self.mapped, column)
        noted = self._noted[has_past]
        if columns.keys() <= noted or len(noted) >= _MAX_NAMES:
            return
        for column in columns:
            if self.mapping.field_of(column) is None and not (has_past and column in _EXPORTED_FIELDS):
                _add(self.left_out, cut(column))
        noted.update(map(cut, columns))

    def missing(self) -> list[str]:
        """The columns of the explicit mapping that no row has had."""
        return [column for column in self.mapping.explicit if column not in self.mapped]


def _add(names: list[str], name: str) -> None:
    if name not in names and len(names) < _MAX_NAMES:
        names.append(name)
