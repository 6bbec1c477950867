"""Settings as form fields: submitted values, changes, and the sources of values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from api.stores.routes import ShownSettings, ShownStore
from api.web.bodies import JsonBody
from console.api_client import Refused
from console.fields import Form, number
from domain.stores import GeneralSettings, Store

_DEFAULT: Final = "default"
_DEFAULTS: Final = {**ShownSettings.of(GeneralSettings()), **ShownStore.of(Store(""))}
"""The general settings and a store as they are where nothing is set."""
GENERAL: Final = "general settings"
_UNKNOWN: Final = "what they say"


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
    general: str | None = None

    @property
    def default(self) -> Any:
        """The value that applies where nothing is set."""
        return value_at(_DEFAULTS, self.general or self.name)


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


@dataclass(frozen=True, slots=True)
class Configured:
    """The settings of a store, or the general ones."""

    title: str
    fields: Sequence[Field]
    api: str
    """Path in the API."""

    body: JsonBody[Any]
    """The body that the API accepts at that path."""

    path: str
    """Path in the console."""

    source: str
    """Name of the source of its own values."""

    document: Mapping[str, Any]
    general: Mapping[str, Any] | None = None
    """The general settings, if they apply where its own values are null."""


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


def changes(configured: Configured, loaded: Mapping[str, Any], typed: Mapping[str, Any]) -> list[Change]:
    """The fields changed by a form: `loaded` has the values that it was rendered with. Not those whose value is stored
    already, as after the same change by somebody else, or when a form is sent twice."""
    found = []
    for field in configured.fields:
        now, after = value_at(configured.document, field.name), typed[field.name]
        before = loaded.get(field.name, now)
        if after not in (now, before):
            found.append(Change(field, now, after, is_conflict=now != before))
    return found


def shown(configured: Configured, values: Mapping[str, Any] | None, refused: Refused | None) -> list[Shown]:
    """The fields with their stored values, or the submitted ones (`values`), and the errors beside them."""
    return [_shown(configured, each, values, refused) for each in configured.fields]


def _shown(configured: Configured, field: Field, values: Mapping[str, Any] | None, refused: Refused | None) -> Shown:
    own, general = value_at(configured.document, field.name), configured.general
    effective, source = own, _DEFAULT if own == field.default else configured.source
    if own is None and field.general:
        effective = value_at(general, field.general) if general is not None else _UNKNOWN
        source = _DEFAULT if general is not None and effective == field.default else GENERAL
    return Shown(field, values[field.name] if values else own, effective, source, _error(field, refused))


def _error(field: Field, refused: Refused | None) -> str:
    for error in refused.errors if refused else ():
        name = error["pointer"].strip("/").replace("/", ".")
        if name == field.name or name.startswith(f"{field.name}."):
            return error["message"]
    return ""
