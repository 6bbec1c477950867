"""Settings as fields of a form: what was typed, what changed, and whence a value comes."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import Any, Final, NamedTuple

import orjson
from starlette.datastructures import FormData

from console.facade import Refused


class Kind(StrEnum):
    """The way in which a field is typed."""

    TEXT = "text"
    CHECK = "check"
    CHOICE = "choice"
    LINES = "lines"
    NUMBER = "number"


class Field(NamedTuple):
    """A setting by its name in the interface, with dots. `general`: the name of the general setting that holds where
    this one is null."""

    name: str
    label: str
    kind: Kind = Kind.TEXT
    hint: str = ""
    choices: Sequence[tuple[str, str]] = ()
    default: Any = None
    general: str | None = None


class Shown(NamedTuple):
    """A field with its own value, the one in effect, and whence that comes; `error`: why what was typed can't be."""

    field: Field
    own: Any
    effective: Any
    source: str
    error: str = ""


class Change(NamedTuple):
    """A field with another value than before; `is_conflict`: somebody else has changed it meanwhile."""

    field: Field
    before: Any
    after: Any
    is_conflict: bool


DEFAULT: Final = "default"
GENERAL: Final = "general settings"
_UNKNOWN: Final = "what they say"
_LINE_BREAK: Final = re.compile(r"[\r\n]")
_NEW_WORD: Final = re.compile("(?<=[a-z])(?=[A-Z])")


def value_at(document: Mapping[str, Any], name: str) -> Any:
    """The value of a name with dots in it; None where there is none."""
    value: Any = document
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by names with dots as the body of a request."""
    body: dict[str, Any] = {}
    for name, value in values.items():
        inner = body
        *parents, last = name.split(".")
        for part in parents:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return body


def typed(form: FormData, fields: Sequence[Field]) -> dict[str, Any]:
    """The values that were typed. What is no number stays text, which the interface refuses with a reason."""
    return {field.name: _typed(form, field) for field in fields}


def _typed(form: FormData, field: Field) -> Any:
    text = str(form.get(field.name) or "").replace("\r\n", "\n")
    match field.kind:
        case Kind.CHECK:
            return field.name in form
        case Kind.LINES:
            return [line.strip() for line in text.splitlines() if line.strip()]
        case Kind.NUMBER:
            return number(text)
    return text.strip() or None


def number(text: str) -> int | float | str | None:
    """The number that a text is; None for none, and the text where it is no number."""
    text = text.strip()
    try:
        return int(text) if text else None
    except ValueError:
        pass
    try:
        fraction = float(text)
    except ValueError:
        return text
    return fraction if isfinite(fraction) else text


def in_one_line(text: str | None) -> str:
    """A text as a field of one line has it: browsers leave out its line breaks."""
    return _LINE_BREAK.sub("", text or "")


def loaded_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """The values with which a form began, as it says. Raises Refused."""
    try:
        loaded = orjson.loads(str(form.get("loaded") or "{}"))
    except ValueError as error:
        raise Refused(422, {"detail": "The form is incomplete. Open the page again."}) from error
    return loaded if isinstance(loaded, dict) else {}


class ShownAgain(NamedTuple):
    """A field of a form that is shown again: its text, and what is stored by now where somebody else has changed that,
    too."""

    text: str
    now: str | None = None


def shown_again(form: Mapping[str, Any] | None, stored: Mapping[str, str]) -> dict[str, ShownAgain]:
    """The fields of a form that was refused, by name: what was typed in it, and in a field that nobody has touched what
    is stored by now. `stored` is that, as the form shows it; all of it without a form. Raises Refused."""
    loaded = loaded_in(form or {})
    fields = {}
    for name, now in stored.items():
        typed = str((form or {}).get(name, now)).replace("\r\n", "\n")  # browsers send CRLF
        before = loaded.get(name, now)
        is_untouched = name in loaded and typed == before
        is_theirs = now not in (before, typed)
        fields[name] = ShownAgain(now) if is_untouched else ShownAgain(typed, now if is_theirs else None)
    return fields


def changes(
    fields: Sequence[Field], loaded: Mapping[str, Any], typed: Mapping[str, Any], current: Mapping[str, Any]
) -> list[Change]:
    """The fields that somebody changed in a form: `loaded` is what it began with, `current` what holds now. Not those
    that hold already, as after somebody else's change to the same, or where a form is sent twice."""
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
    """Fields with their values, or those that were typed (`values`), and the errors beside them."""
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
    """A value as a person reads it."""
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
    """True if something is wrong with the field of this name."""
    return refused is not None and any(name in each["pointer"].split("/") for each in refused.errors)


def place_in_words(pointer: str, labels: Mapping[str, str] | None = None) -> str:
    """A place in a request (RFC 6901) as the page of its form names it: by the label of a field, whose name may have
    dots, else by the name in words. Entries of lists are counted from 1; empty for the request itself."""
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    # The console sends one thing at a time, also where the interface takes a list of them.
    parts = parts[1:] if parts and parts[0].isdecimal() else parts
    named = next((at for at in range(len(parts), 0, -1) if ".".join(parts[:at]) in (labels or {})), 0)
    said = [(labels or {})[".".join(parts[:named])]] if named else []
    for part in parts[named:]:
        if part.isdecimal() and said:
            said[-1] += f" {int(part[:9]) + 1}"
        else:
            said.append(_NEW_WORD.sub(" ", part).lower())
    words = ", ".join(said)
    return words[:1].upper() + words[1:]
