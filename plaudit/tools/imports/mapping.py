"""Mapping of a row's columns to a submission, and the id of its review."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final
from uuid import UUID, uuid5

from pydantic import ValidationError

from domain.quantities import listed
from domain.reviews_facts import Source
from domain.timestamps import moment_in
from messaging.reviews import ONE_SUBMISSION, SubmittedReview
from plaudit.errors import UsageError
from plaudit.terminal import shown
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.bad_rows import BadRowError, cut, faults_of
from plaudit.tools.imports.past import is_exported
from plaudit.tools.imports.rows import Row, csv_header

FIELDS: Final = (
    "id",
    "storeId",
    "userId",
    "userName",
    "entityId",
    "entityType",
    "entityName",
    "title",
    "review",
    "rating",
    "writtenDate",
    "incentivized",
    "language",
)
_MAY_BE_EMPTY: Final = ("title", "userName", "entityName")
_STRIPPED: Final = ("id", "storeId", "userId", "entityId", "entityType", "language")
"""Fields that are stripped of surrounding whitespace in CSV, except in our own exports."""

REQUIRED: Final = ("entityId", "entityType", "review", "rating")

_BOOLEANS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_CLOCK_SKEW: Final = timedelta(days=1)
"""Tolerance for a `writtenDate` in the future: a later one, which the time of import would replace, is a fault."""

_SEPARATORS: Final = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Other characters that programs write between columns; Excel does in many countries."""

_MOST_NAMED: Final = 20
_FIELDS_BY_PLAIN_NAME: Final = {name.lower(): name for name in FIELDS}
_NAMESPACE: Final = UUID("0b9c8f0e-58a1-5f5b-9f0c-6a3a2f4b7d21")


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Maps columns to fields.

    A column that is named like a field maps to it, ignoring case, whitespace, dashes and underscores, unless `explicit`
    (column to field) says otherwise. `defaults` apply to rows in which the field is missing or empty.
    """

    explicit: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[str], *, store: str | None = None, entity_type: str | None = None) -> "ColumnMapping":
        """Parse `column=field` pairs. Raises UsageError."""
        explicit: dict[str, str] = {}
        for pair in pairs:
            column, _, name = pair.rpartition("=")
            known = _field_named(name)
            if not column or known is None:
                raise UsageError(f"{pair}: write column=field; the fields are {', '.join(FIELDS)}.")
            if column in explicit or known in explicit.values():
                raise UsageError(f"{pair}: a column can be mapped to one field only, and a field to one column.")
            explicit[column] = known
        defaults = {"storeId": store, "entityType": entity_type}
        return cls(explicit, {name: value for name, value in defaults.items() if value})

    def check(self, columns: Collection[str]) -> None:
        """Check that a file with these columns can be imported. Raises UsageError."""
        if len(columns) == 1 and (separator := next((each for each in _SEPARATORS if each in "".join(columns)), None)):
            raise UsageError(
                f"The header row has {_SEPARATORS[separator]} instead of commas: save the table with commas between "
                "its columns."
            )
        unknown = [column for column in self.explicit if column not in columns]
        if unknown:
            raise UsageError(f"There is no column {', '.join(unknown)}. The columns are {listed_columns(columns)}.")
        names = [name for column in columns if (name := self.field_of(column))]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise UsageError(
                f"Several columns are mapped to {', '.join(duplicates)}. Use --map column=field to choose one."
            )
        missing = [name for name in REQUIRED if name not in names and name not in self.defaults]
        if missing:
            raise UsageError(
                f"No column is mapped to {', '.join(missing)}. Use --map column=field to choose one of "
                f"{listed_columns(columns)}."
            )

    def header(self, file: BinaryIO, format: FileFormat) -> tuple[list[str], Row]:
        """The columns of a CSV and its header row, checked; both are empty for JSON Lines. Raises UsageError."""
        if format is FileFormat.JSONL:
            return [], Row(0, 0, 0)
        try:
            found = csv_header(file)
        except ValueError as error:
            raise UsageError(f"The header row of {file.name} can't be read: {error}.") from None
        if found is None:
            raise UsageError(f"{file.name} is empty: it has no header row.")
        self.check(found[0])
        return found

    def submission(self, columns: Mapping[str, Any], *, is_text: bool) -> SubmittedReview:
        """The review in a row, with an id. Raises BadRowError.

        `is_text`: all values are text, as in CSV: empty means missing, and ids, types and languages are stripped. A row
        without an id gets one that is derived from its content: the same row twice is one review, also across files.
        """
        values: dict[str, Any] = {}
        is_stripped = is_text and not is_exported(columns)
        for column, value in columns.items():
            name = self.field_of(column)
            value = value.strip() if is_stripped and name in _STRIPPED else value
            if name is None or value is None or (value == "" and (is_text or name not in _MAY_BE_EMPTY)):
                continue
            if name in values:
                raise BadRowError(f"/{name}: Given by several columns")
            values[name] = _parsed(name, value, is_text=is_text)
        try:
            review = ONE_SUBMISSION.validate_python({**self.defaults, **values, "source": Source.IMPORT})
        except ValidationError as error:
            raise BadRowError(faults_of(error)) from None
        if review.written_date and review.written_date > datetime.now(UTC) + _CLOCK_SKEW:
            raise BadRowError("/writtenDate: Is in the future")
        return review if review.id else review.model_copy(update={"id": content_id(review)})

    def field_of(self, column: str) -> str | None:
        """The field of a column; None for a column that is left out."""
        if column in self.explicit:
            return self.explicit[column]
        name = _field_named(column)
        return None if name in self.explicit.values() else name


def content_id(review: SubmittedReview) -> str:
    """The id of a review that has none, derived from all of its content."""
    content = review.model_dump_json(by_alias=True, exclude_defaults=True, exclude={"id", "source"})
    return str(uuid5(_NAMESPACE, content))


def submission_identity(review: SubmittedReview) -> str:
    """The CloudEvents id of a submission: equal for equal rows, different for another row with the same review id."""
    return str(uuid5(_NAMESPACE, f"{review.id}\n{content_id(review)}"))


def listed_columns(columns: Collection[str]) -> str:
    """The first names of columns in one line, and the number of the others."""
    return listed([shown(cut(column)) for column in columns], _MOST_NAMED)


def _field_named(name: str) -> str | None:
    return _FIELDS_BY_PLAIN_NAME.get(plain_name(name))


def plain_name(name: str) -> str:
    """The name of a column, by which it is found: in small letters, without spaces, `_` and `-`."""
    return re.sub(r"[\s_-]", "", name).lower()


def _parsed(name: str, value: Any, *, is_text: bool) -> Any:
    """The parsed value of a field. A text that can't be parsed is returned unchanged: validation reports it."""
    if name == "writtenDate" and isinstance(value, str):
        return _moment(value)
    if is_text and name == "rating":
        return _number(value)
    return _BOOLEANS.get(value.strip().lower(), value) if is_text and name == "incentivized" else value


def _moment(text: str) -> datetime | str:
    stripped = text.strip()
    if re.fullmatch("[0-9]{,7}|[0-9]{9,}", stripped):
        return text  # Unix time: some values would parse as a date in 1612
    try:
        return moment_in(stripped)
    except (ValueError, OverflowError):
        return text


def _number(text: str) -> float | str:
    return float(text) if re.fullmatch(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*", text, re.ASCII) else text
