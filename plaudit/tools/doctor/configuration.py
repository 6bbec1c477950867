"""Checks of the configuration, without any server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from pydantic import BaseModel
from pydantic_settings import DotEnvSettingsSource

from domain.findings import Finding, failed, ok, warn
from messaging.kafka.connection import UnusableConnectionError
from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.entity_types.registered import registered_entity_types
from plaudit.processes.authentication import check_authentication

_CHECK = "configuration"
_PREFIX = "PLAUDIT_"


def check_configuration(settings: Settings) -> Iterator[Finding]:
    """Findings on the settings by themselves; one if all is well."""
    # Its names come in small letters, as the file may have them in any.
    of_file = {name.upper() for name in DotEnvSettingsSource(type(settings)).env_vars}
    problems = list(_problems(settings, of_file | set(os.environ)))
    yield from problems or [ok(_CHECK, "valid")]


def _problems(settings: Settings, environment: Iterable[str]) -> Iterator[Finding]:
    try:
        registered_entity_types(settings)
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), "Correct it: no process starts with it.")
    try:
        check_authentication(settings)
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), "Correct it: the API doesn't start with it.")
    try:
        settings.kafka_connection().client_options()
    except MissingAddressError as error:
        yield failed(_CHECK, "no address of Kafka", str(error))
    except (UnusableConnectionError, ConfigurationError) as error:
        yield failed(_CHECK, str(error), "Correct it: nothing that needs Kafka starts with it.")
    try:
        settings.mongo_uri()
    except MissingAddressError as error:
        yield failed(_CHECK, "no address of MongoDB", str(error))
    except ConfigurationError:
        pass  # told by the check of MongoDB
    names = set(_variables(type(settings), _PREFIX))
    unknown = sorted(name for name in environment if name.startswith(_PREFIX) and name not in names)
    if unknown:
        advice = "They have no effect: look for a slip of the pen; `plaudit config` shows all settings."
        yield warn(_CHECK, f"unknown variables {', '.join(unknown)}", advice)


def _variables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        yield variable
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _variables(field.annotation, variable + "__")
