"""Reading of incoming JSON, from HTTP and from Kafka: whatever isn't understood is refused.

Field names and the words of enumerations match in any letter case, null counts as missing if a field doesn't accept it,
and integers may be written as `2.0`. A duplicate field is refused, and so is an unknown one in a closed type; in an
open type, unknown fields are reported to the caller.

A usual value takes the fast path of `Reader.read`: Pydantic alone. The slow path corrects a value first. Both give the
same result for a value that Pydantic accepts with unknown fields forbidden, unless a field is duplicated: Pydantic
silently takes the last one. So the fast path requires that as many fields were read as there may be names, counted by
colons, or by quotes before a colon or white space. `{"id": "a", "id": "b"}` has two names and one field: the slow path
refuses it. Fields of nested objects aren't counted, so values with any take the slow path, and so do values with a
hidden field.
"""

import json
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_snake

from messaging.json_values import ObjectWithDuplicates, parse_error, parse_json, without_bom
from messaging.metrics import note_ignored
from messaging.reading_errors import (
    DUPLICATE_FIELD,
    INVALID_JSON,
    LONGEST_NAME,
    UNKNOWN_FIELD,
    InputError,
    InvalidContentError,
    input_error,
    invalid_content,
    nearest,
    pointer,
)
from messaging.reading_shapes import MessageShape, folded_name, shape_of

T = TypeVar("T")

_MAX_ERRORS: Final = 1_000
_AT_A_TIME: Final = 50
"""Items whose errors are listed at a time, so that few are listed in vain."""
_MAX_SUGGESTIONS: Final = 20
_MAX_IGNORED: Final = 100
_FINAL_TYPES: Final = frozenset(("json_invalid", "too_long"))


_MAX_PARTS: Final = 50_000
"""Maximum number of objects and arrays in a value, and of errors: 350,000 in a MiB take 230 MiB of memory."""
_MAX_COMMAS: Final = 2 * _MAX_PARTS
"""Maximum number of commas between fields and between items: 8 MiB of short ones take seconds."""

_TOO_MANY_PARTS: Final = (
    f"The value has more than {_MAX_PARTS} objects and arrays, about {_MAX_COMMAS} fields and items, "
    f"or {_MAX_PARTS} errors. Send several smaller ones"
)
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""Strings, including an unterminated last one: otherwise each quote in that would start a new search."""


class Read(NamedTuple, Generic[T]):
    """The content of a value, and the names of its ignored fields."""

    content: T
    ignored: tuple[str, ...] = ()


class Reader(Generic[T]):
    """Reads values of one type.

    A hidden field counts as unknown to the senders of such values. `prepare` converts a parsed value of another format
    to the fields of the type.
    """

    def __init__(
        self,
        adapter: TypeAdapter[T],
        *,
        hidden: Collection[str] = (),
        prepare: Callable[[Any], Any] | None = None,
    ) -> None:
        self._adapter = adapter
        self._prepare = prepare
        self.shape = shape_of(adapter.core_schema).without(hidden)
        self._has_models = bool(self.shape.objects or (self.shape.items and self.shape.items.objects))
        self._hidden = frozenset(map(to_snake, hidden))

    def __call__(self, value: bytes) -> T:
        """The content of a message; ignored fields are counted and logged. Raises InvalidContentError."""
        content, ignored = self.read(value)
        if ignored:
            note_ignored(self.shape.name, ignored)
        return content

    def read(self, value: bytes) -> Read[T]:
        """The content of a value. Raises InvalidContentError."""
        return self.read_quickly(value) or self.read_slowly(value)

    def read_quickly(self, value: bytes) -> Read[T] | None:
        """The content of a value on the fast path; None if it needs the slow one. Raises InvalidContentError."""
        value = without_bom(value)
        if has_too_many_parts(value):
            raise InvalidContentError([InputError("", "too-many-parts", _TOO_MANY_PARTS)])
        try:
            content = self._adapter.validator.validate_json(value, extra="forbid", by_alias=True, by_name=False)
        except ValidationError as error:
            if error.error_count() > _MAX_PARTS:
                raise InvalidContentError([InputError("", "too-many-parts", _TOO_MANY_PARTS)]) from None
            if final := _final_errors(error, value):
                raise InvalidContentError(final) from None
            return None
        fields = self._count_fields(content)
        if value.count(b":") == fields or not _may_repeat(value, fields):
            return Read(content)
        return None

    def _count_fields(self, content: Any) -> int:
        """The number of fields that were read, without those of nested objects; 0 if one of them is hidden."""
        if not self._has_models:
            return 0
        count = 0
        for model in content if isinstance(content, list) else (content,):
            given: set[str] = model.model_fields_set
            if self._hidden and not self._hidden.isdisjoint(given):
                return 0
            count += len(given)
        return count

    def read_slowly(self, value: bytes, context: object = None) -> Read[T]:
        """The content of a value on the slow path: about half a second for 1 MiB. `context` is for the validators of
        the type. Raises InvalidContentError."""
        json_value = _parse(without_bom(value))
        correction = _Correction()
        if self._prepare:
            correction.correct(json_value, None, ())
            correction.raise_errors()
            json_value = self._prepare(json_value)
        content = correction.correct(json_value, self.shape, ())
        correction.raise_errors()
        try:
            found = self._validate(content, context)
        except ValidationError as error:
            raise self._refusal(error, content) from None
        return Read(found, tuple(correction.ignored))

    def _validate(self, content: Any, context: object = None) -> T:
        encoded = _ENCODER.encode(content).encode()
        return self._adapter.validate_json(encoded, context=context, by_alias=True, by_name=False)

    def _refusal(self, error: ValidationError, content: Any) -> InvalidContentError:
        """The error for corrected content. If it has many, only the first ones are made: Pydantic can only list all."""
        if error.error_count() <= _MAX_ERRORS or not isinstance(content, list):
            return invalid_content(error, self.shape, content)
        errors: list[InputError] = []
        for start in range(0, len(content), _AT_A_TIME):
            try:
                self._validate(content[start : start + _AT_A_TIME])
            except ValidationError as part:
                details = part.errors(include_url=False, include_input=False)
                errors += [input_error({**each, "loc": _moved(each["loc"], start)}) for each in details]
            if len(errors) >= _MAX_ERRORS:
                break
        return InvalidContentError(errors, error.error_count())


@lru_cache(maxsize=256)
def reader_of(adapter: TypeAdapter[T]) -> Reader[T]:
    """The reader of a type, cached."""
    return Reader(adapter)


def _moved(location: tuple[str | int, ...], by: int) -> tuple[str | int, ...]:
    """The place of an error in an array, of which only the items after the first `by` were read."""
    index, *inner = location
    return (int(index) + by, *inner)


class _Correction:
    """Corrects a parsed value by its shape, and collects errors and ignored fields."""

    def __init__(self) -> None:
        self.errors: list[InputError] = []
        self.ignored: dict[str, None] = {}

    def raise_errors(self) -> None:
        """Raise InvalidContentError if there are errors."""
        if self.errors:
            raise InvalidContentError(self.errors)

    def correct(self, value: Any, shape: MessageShape | None, path: tuple[str | int, ...]) -> Any:
        """The value with the field names, enumeration words and integers of its type."""
        if isinstance(value, list):
            items = shape.items if shape else None
            return [self.correct(each, items, (*path, index)) for index, each in enumerate(value)]
        if isinstance(value, dict):
            return self._correct_object(value, shape, path)
        return value if shape is None else _correct_scalar(value, shape)

    def _correct_object(
        self, given: dict[str, Any], shape: MessageShape | None, path: tuple[str | int, ...]
    ) -> dict[str, Any]:
        for name in given.names if isinstance(given, ObjectWithDuplicates) else ():
            self._note_duplicate(path, name)
        if shape and (values := shape.values):
            named = {name: value for name, value in given.items() if value is not None or values.takes_null}
            return {name: self.correct(value, values, (*path, name)) for name, value in named.items()}
        known = shape.object_for(given) if shape else None
        if shape is None or known is None:
            for name, value in given.items():
                self._find_duplicates(value, (*path, name))
            return given
        content: dict[str, Any] = {}
        seen: set[str] = set()
        for name, value in given.items():
            field = known.fields.get(folded_name(name))
            if field is None:
                self._note_unknown(name, shape, path, is_closed=known.is_closed)
                self._find_duplicates(value, (*path, name))
                continue
            if field.name in seen:
                self._note_duplicate(path, name)
            seen.add(field.name)
            if value is not None or field.shape.takes_null:
                content[field.name] = self.correct(value, field.shape, (*path, name))
        return content

    def _find_duplicates(self, unknown: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(unknown, dict | list):
            self.correct(unknown, None, path)

    def _note_duplicate(self, path: tuple[str | int, ...], name: str) -> None:
        self._note(path, name, DUPLICATE_FIELD, "The field is given twice; letter case is ignored")

    def _note_unknown(self, name: str, shape: MessageShape, path: tuple[str | int, ...], *, is_closed: bool) -> None:
        if is_closed:
            hint = ""
            if len(self.errors) < _MAX_SUGGESTIONS:
                hint = nearest(name, [n for n in shape.known_names() if folded_name(n) != folded_name(name)])
            self._note(path, name, UNKNOWN_FIELD, f"There is no field with this name. {hint}".strip())
        elif len(self.ignored) < _MAX_IGNORED:
            named = [*(part for part in path if isinstance(part, str)), name]
            self.ignored[".".join(named)] = None

    def _note(self, path: tuple[str | int, ...], name: str, code: str, message: str) -> None:
        cut = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
        self.errors.append(InputError(pointer((*path, cut)), code, message))
        if len(self.errors) >= _MAX_ERRORS:
            self.raise_errors()


def _correct_scalar(value: Any, shape: MessageShape) -> Any:
    """A string or a number, or the enumeration word or integer that it stands for."""
    if isinstance(value, str) and shape.words:
        return shape.words.get(folded_name(value), value)
    if isinstance(value, float) and shape.is_whole and not shape.is_fraction and value.is_integer():
        return int(value)
    return value


def _final_errors(error: ValidationError, value: bytes) -> list[InputError]:
    """The errors that can't be corrected and make others irrelevant: invalid JSON, or an array with too many items.
    Among very many errors they aren't looked for: to list those would take longer than the slow path."""
    if error.error_count() > _MAX_ERRORS:
        return []
    details = error.errors(include_url=False, include_input=False)
    final = [input_error(each) for each in details if each["type"] in _FINAL_TYPES]
    return [e._replace(message=parse_error(value, e.message)) if e.code == INVALID_JSON else e for e in final]


def has_too_many_parts(value: bytes) -> bool:
    """True if a value has more objects and arrays, or more fields and items, than any value may."""
    if len(value) <= 2 * _MAX_PARTS or not _has_many(value):
        return False
    return _has_many(_STRINGS.sub(b"", value))


def _has_many(value: bytes) -> bool:
    return value.count(b"{") + value.count(b"[") > _MAX_PARTS or value.count(b",") > _MAX_COMMAS


def _may_repeat(value: bytes, fields: int) -> bool:
    """True if a field may be duplicated. A value has at most as many names as quotes before a colon or white space."""
    return fields < value.count(b'":') + sum(value.count(b'"' + space) for space in (b" ", b"\t", b"\n", b"\r"))


def _parse(value: bytes) -> Any:
    try:
        return parse_json(value)
    except ValueError as error:
        raise InvalidContentError([InputError("", INVALID_JSON, f"Invalid JSON: {error}")]) from None


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
