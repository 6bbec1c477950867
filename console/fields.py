"""Settings as form fields: submitted values, changes, and the sources of values."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import Any, Final, NamedTuple

import orjson
from starlette.datastructures import ImmutableMultiDict

from console.api_client import Refused

Form = ImmutableMultiDict[str, str]
"""A submitted form, with the line breaks of its texts as `\n`."""


class Kind(StrEnum):
    """The input control of a field."""

    TEXT = "text"
    CHECK = "check"
    CHOICE = "choice"
    LINES = "lines"
    NUMBER = "number"


class Field(NamedTuple):
    """A setting, by its dotted name in the API. `general`: name of the general setting that applies if this one is
    null."""

    name: str
    label: str
    kind: Kind = Kind.TEXT
    hint: str = ""
    choices: Sequence[tuple[str, str]] = ()
    default: Any = None
    general: str | None = None


class Shown(NamedTuple):
    """A field with its own value, the effective one and its source; `error`: why the submitted value was refused."""

    field: Field
    own: Any
    effective: Any
    source: str
    error: str = ""


class Change(NamedTuple):
    """A changed field; `is_conflict`: somebody else has changed it since the form was rendered."""

    field: Field
    before: Any
    after: Any
    is_conflict: bool


DEFAULT: Final = "default"
GENERAL: Final = "general settings"
_UNKNOWN: Final = "what they say"
_LINE_BREAK: Final = re.compile(r"[\r\n]")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Of ASCII: Python itself also reads digits of other scripts, and `4_8` as 48."""

_NEW_WORD: Final = re.compile("(?<=[a-z])(?=[A-Z])")


def value_at(document: Mapping[str, Any], name: str) -> Any:
    """The value under a dotted name; None if there is none."""
    value: Any = document
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name as the nested body of a request."""
    body: dict[str, Any] = {}
    for name, value in values.items():
        inner = body
        *parents, last = name.split(".")
        for part in parents:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return body


def typed(form: Form, fields: Sequence[Field]) -> dict[str, Any]:
    """The submitted values by name. An invalid number stays text, which the API refuses with a reason."""
    return {field.name: _typed(form, field) for field in fields}


def _typed(form: Form, field: Field) -> Any:
    text = form.get(field.name, "")
    match field.kind:
        case Kind.CHECK:
            return field.name in form
        case Kind.LINES:
            return [line.strip() for line in text.splitlines() if line.strip()]
        case Kind.NUMBER:
            return number(text)
    return text.strip() or None


def number(text: str) -> int | float | str | None:
    """The text as a number; None if it is blank, and the text itself if it is no finite number."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return text or None
    try:
        return int(text)
    except ValueError:  # a fraction, or too long for an integer
        fraction = float(text)
    return fraction if isfinite(fraction) else text


def in_one_line(text: str | None) -> str:
    """A text as an input of one line returns it: browsers remove line breaks."""
    return _LINE_BREAK.sub("", text or "")


def loaded_in(form: Mapping[str, str]) -> dict[str, Any]:
    """The values that a form was rendered with, from its field `loaded`. Raises Refused: that isn't JSON."""
    try:
        loaded = orjson.loads(form.get("loaded") or "{}")
    except ValueError as error:
        raise Refused(422, {"detail": "The form is incomplete. Reload the page."}) from error
    return loaded if isinstance(loaded, dict) else {}


class ShownAgain(NamedTuple):
    """A field of a form that is shown again: its text, and the stored one (`now`) if somebody else has changed that."""

    text: str
    now: str | None = None


def shown_again(form: Mapping[str, str] | None, stored: Mapping[str, str]) -> dict[str, ShownAgain]:
    """The fields of a refused form, by name: the submitted text, but the stored one in fields that the visitor left
    unchanged. `stored` has the current texts; without a form all fields have these. Raises Refused."""
    loaded = loaded_in(form or {})
    fields = {}
    for name, now in stored.items():
        typed = form.get(name, now) if form else now
        before = loaded.get(name, now)
        is_untouched = name in loaded and typed == before
        is_theirs = now not in (before, typed)
        fields[name] = ShownAgain(now) if is_untouched else ShownAgain(typed, now if is_theirs else None)
    return fields


def changes(
    fields: Sequence[Field], loaded: Mapping[str, Any], typed: Mapping[str, Any], current: Mapping[str, Any]
) -> list[Change]:
    """The fields changed by a form: `loaded` has the values that it was rendered with, `current` the stored ones. Not
    those whose value is stored already, as after the same change by somebody else, or when a form is sent twice."""
    return [
        Change(each, now, typed[each.name], is_conflict=now != loaded.get(each.name, now))
        for each in fields
        if typed[each.name] not in (now := value_at(current, each.name), loaded.get(each.name, now))
    ]


def shown(
    fields: Sequence[Field],
    document: Mapping[str, Any],
    own_source: str,
    *,
    general: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    refused: Refused | None = None,
) -> list[Shown]:
    """Fields with their stored values, or the submitted ones (`values`), and the errors beside them."""
    return [_shown(each, document, own_source, general, values, refused) for each in fields]


def _shown(
    field: Field,
    document: Mapping[str, Any],
    own_source: str,
    general: Mapping[str, Any] | None,
    values: Mapping[str, Any] | None,
    refused: Refused | None,
) -> Shown:
    own = value_at(document, field.name)
    effective, source = own, DEFAULT if own == field.default else own_source
    if own is None and field.general:
        effective = value_at(general, field.general) if general is not None else _UNKNOWN
        source = DEFAULT if general is not None and effective == field.default else GENERAL
    return Shown(field, values[field.name] if values else own, effective, source, _error(field, refused))


def _error(field: Field, refused: Refused | None) -> str:
    for error in refused.errors if refused else ():
        name = error.get("pointer", "").strip("/").replace("/", ".")
        if name == field.name or name.startswith(f"{field.name}."):
            return error.get("message", "")
    return ""


def in_words(value: Any) -> str:
    """A value as readable text."""
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case None | "" | []:
            return "none"
        case list():
            return ", ".join(map(str, value))
    return str(value)


def is_about(refused: Refused | None, name: str) -> bool:
    """True if an error concerns the field with this name."""
    return refused is not None and any(name in each["pointer"].split("/") for each in refused.errors)


def place_in_words(pointer: str, labels: Mapping[str, str] | None = None) -> str:
    """A JSON pointer (RFC 6901) into a request as readable text: the label of the field, whose name may have dots, else
    the name split into words. List items are counted from 1; empty for the request itself."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    # A leading index says nothing: the console sends one item at a time, also where the API takes a list.
    parts = parts[1:] if parts and parts[0].isdecimal() else parts
    labelled = next((at for at in range(len(parts), 0, -1) if ".".join(parts[:at]) in (labels or {})), 0)
    names = [(labels or {})[".".join(parts[:labelled])]] if labelled else []
    for part in parts[labelled:]:
        if part.isdecimal() and names:
            names[-1] += f" {int(part[:9]) + 1}"
        else:
            names.append(_NEW_WORD.sub(" ", part).lower())
    words = ", ".join(names)
    return words[:1].upper() + words[1:]
