"""Object types in the configuration: their attributes, and the forms of `getEntity`."""

import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SecretStr,
    StringConstraints,
    Tag,
    TypeAdapter,
)
from pydantic.alias_generators import to_camel

from domain.entity_types import DetailBlade, EntityType, Resolver
from messaging.schemas import Id
from plaudit.entity_types.http_resolvers import ID, HttpResolver
from plaudit.entity_types.resolvers import FunctionResolver

# `{id}` comes after the host, so that no id can choose the server. Credentials belong in a header.
_ADDRESS: Final = re.compile(r"https?://[^\s/?#@{}\\]+[/?][^\s#{}]*(\{id\}[^\s#{}]*)+", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_PATH: Final = re.compile(r"[^.\[\]]+(\.[^.\[\]]+)*")
_KINDS: Final = ("function", "http")


def _checked_url(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError(f"Must be an http or https address with {ID} in its path or query, without credentials")
    return value


def _checked_path(value: str) -> str:
    if not _PATH.fullmatch(value):
        raise ValueError("Must be a path like product.images.0.url")
    return value


def _checked_header_value(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x20-\x7e]*", value.get_secret_value()):
        raise ValueError("Must be printable ASCII")
    return value


def function_named(reference: str) -> Callable[..., Any]:
    """The function that `package.module:function` names; modules are also searched in the working directory.

    Raises ValueError: it can't be imported, or isn't callable.
    """
    module_name, _, name = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ValueError(f"Can't be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError("Must name a function")
    function: Callable[..., Any] = found
    return function


def _checked_reference(reference: str) -> str:
    if not _REFERENCE.fullmatch(reference):
        raise ValueError("Must be package.module:function")
    function_named(reference)
    return reference


def _kind(value: object) -> str | None:
    return "function" if isinstance(value, str) else "http" if isinstance(value, dict) else None


JsonPath = Annotated[str, StringConstraints(max_length=1_024), AfterValidator(_checked_path)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[SecretStr, AfterValidator(_checked_header_value)]
Text = Annotated[str, StringConstraints(max_length=1_024)]


class _Registration(BaseModel):
    """Validated strictly; an unknown name is an error, because it would have no effect."""

    model_config = ConfigDict(strict=True, alias_generator=to_camel, extra="forbid")


class HttpTemplate(_Registration):
    """The HTTP request that resolves names."""

    url: Annotated[str, AfterValidator(_checked_url)]
    name: JsonPath
    image: JsonPath | None = None
    headers: dict[HeaderName, HeaderValue] = {}
    timeout: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] = 2.0

    def resolver(self) -> Resolver:
        """The resolver that sends this request."""
        headers = {name: value.get_secret_value() for name, value in self.headers.items()}
        return HttpResolver(self.url, name=self.name, image=self.image, headers=headers, timeout=self.timeout)


class BladeRegistration(_Registration):
    """The blade that shows an object."""

    controller: Text
    template: Text


FunctionReference = Annotated[str, AfterValidator(_checked_reference)]
GetEntity = Annotated[
    Annotated[FunctionReference, Tag("function")] | Annotated[HttpTemplate, Tag("http")],
    Discriminator(
        _kind,
        custom_error_type="get_entity",
        custom_error_message='Must be "package.module:function" or an object with `url` and `name`',
    ),
]


class EntityTypeRegistration(_Registration):
    """An object type. An attribute left out keeps its value for a type that is already known, else has the default."""

    entity_type: Id
    description: Text = ""
    full_type_name: Text = ""
    icon: Text = ""
    entity_id_field_name: Text = "id"
    detail_blade: BladeRegistration | None = None
    get_entity: GetEntity | None = None
    known_children_types: tuple[Id, ...] = ()
    purchase_item_field: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None

    def applied_to(self, known: EntityType | None) -> EntityType:
        """The known type, or a new one, with the attributes that are set here."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if self.detail_blade:
            given["detail_blade"] = DetailBlade(self.detail_blade.controller, self.detail_blade.template)
        if "get_entity" in given:
            given["get_entity"] = self._resolver()
        return replace(known or EntityType(self.entity_type), **given)

    def _resolver(self) -> Resolver | None:
        if isinstance(self.get_entity, str):
            return FunctionResolver(function_named(self.get_entity))
        return self.get_entity.resolver() if self.get_entity else None


REGISTRATIONS: Final[TypeAdapter[list[EntityTypeRegistration]]] = TypeAdapter(list[EntityTypeRegistration])


def shown_location(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The location of an error in the configuration, without the tag of `getEntity` that Pydantic adds."""
    return tuple(
        part for i, part in enumerate(location) if not (part in _KINDS and i and location[i - 1] == "getEntity")
    )


def attributes_at(location: Sequence[int | str]) -> list[str]:
    """The names of the attributes of the object at this location in the configuration."""
    models: Mapping[int | str, type[_Registration]] = {"detailBlade": BladeRegistration, "http": HttpTemplate}
    return [to_camel(name) for name in models.get(location[-1], EntityTypeRegistration).model_fields]
