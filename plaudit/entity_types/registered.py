"""Registration of object types: the built-in sample, those of other packages, and those of the configuration.

A package registers types by an entry point of the group `plaudit.entity_types` that names an `EntityType`, or several.
The configuration overrides each attribute that it sets.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from domain.entity_types import PRODUCT, EntityType, EntityTypes
from messaging.json_values import without_bom
from messaging.reading_errors import InputError, InvalidContentError, input_error, nearest
from plaudit.config import ConfigurationError, Settings
from plaudit.entity_types.resolvers import FunctionResolver
from plaudit.entity_types.schema import REGISTRATIONS, EntityTypeRegistration, attributes_at, shown_location

GROUP: Final = "plaudit.entity_types"
_VARIABLE: Final = "PLAUDIT_ENTITY_TYPES"


def registered_entity_types(settings: Settings) -> EntityTypes:
    """All registered object types. Raises ConfigurationError, which names the place and the reason."""
    types = {PRODUCT.entity_type: PRODUCT}
    types |= {type.entity_type: type for type in _from_packages()}
    configured: dict[str, str] = {}
    for source, registration in _from_configuration(settings):
        name = registration.entity_type
        if name in configured:
            raise ConfigurationError(f"{source}: {name} is registered already, by {configured[name]}")
        configured[name] = source
        types[name] = registration.applied_to(types.get(name))
    return EntityTypes(types.values())


def _from_packages() -> EntityTypes:
    found: list[EntityType] = []
    for point in entry_points(group=GROUP):
        found += _types_of(point)
        try:
            EntityTypes(found)
        except ValueError as error:
            raise ConfigurationError(f"{_source(point)}: {error}") from None
    return EntityTypes(found)


def _types_of(point: EntryPoint) -> list[EntityType]:
    try:
        loaded = point.load()
        types = [loaded] if isinstance(loaded, EntityType) else list(loaded)
    except Exception as error:
        raise ConfigurationError(f"{_source(point)}: can't be loaded: {type(error).__name__}: {error}") from error
    if not all(isinstance(type, EntityType) for type in types):
        raise ConfigurationError(f"{_source(point)}: must be an EntityType, or several")
    return [replace(type, get_entity=type.get_entity and FunctionResolver(type.get_entity)) for type in types]


def _source(point: EntryPoint) -> str:
    package = f" of package {point.dist.name}" if point.dist else ""
    return f"Entry point {point.name} = {point.value} in {GROUP}{package}"


def _from_configuration(settings: Settings) -> Iterator[tuple[str, EntityTypeRegistration]]:
    if settings.entity_types_file:
        source = f"{_VARIABLE}_FILE ({settings.entity_types_file})"
        yield from _read(source, _content(source, settings.entity_types_file))
    if settings.entity_types and settings.entity_types.get_secret_value().strip():
        yield from _read(_VARIABLE, settings.entity_types.get_secret_value().encode())


def _content(source: str, file: Path) -> bytes:
    try:
        return without_bom(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{source}: {error.strerror}") from error


def _read(source: str, text: bytes) -> Iterable[tuple[str, EntityTypeRegistration]]:
    try:
        registrations = REGISTRATIONS.validate_json(text)
    except ValidationError as error:
        # Without the input: headers are secrets.
        details = error.errors(include_url=False, include_input=False)
        errors = [_shown_error(detail) for detail in details]
        raise ConfigurationError(f"{source}: {InvalidContentError(errors)}") from None
    return ((f"{source} /{index}", registration) for index, registration in enumerate(registrations))


def _shown_error(detail: ErrorDetails) -> InputError:
    """The error for a detail of Pydantic; for an unknown name with the nearest known one."""
    error = input_error({**detail, "loc": shown_location(detail["loc"])})
    if detail["type"] != "extra_forbidden":
        return error
    *place, name = detail["loc"]
    message = f"There is no attribute with this name. {nearest(str(name), attributes_at(place))}"
    return error._replace(message=message)
