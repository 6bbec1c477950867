"""Checks of the configuration, without any server."""

from collections.abc import Iterator

from domain.findings import Finding, failed, ok, warn
from messaging.kafka.connection import UnusableConnectionError
from plaudit.config import ConfigurationError, MissingAddressError, Settings
from plaudit.effective_configuration import unknown_variables
from plaudit.entity_types.registered import registered_entity_types
from plaudit.processes.authentication import check_authentication
from plaudit.processes.sign_in import identity_provider

_CHECK = "configuration"


def check_configuration(settings: Settings) -> Iterator[Finding]:
    """Findings about the settings themselves; a single one if all are valid."""
    problems = list(_problems(settings))
    yield from problems or [ok(_CHECK, "valid")]


def _problems(settings: Settings) -> Iterator[Finding]:
    try:
        registered_entity_types(settings)
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), "Correct the setting: no process starts until then.")
    try:
        check_authentication(settings)
        identity_provider(settings)
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), "Correct the setting: the API doesn't start until then.")
    try:
        settings.kafka_connection().client_options()
    except MissingAddressError as error:
        yield failed(_CHECK, "no address of Kafka is set", str(error))
    except (UnusableConnectionError, ConfigurationError) as error:
        yield failed(_CHECK, str(error), "Correct the setting: processes that need Kafka don't start until then.")
    try:
        settings.mongo_uri()
    except MissingAddressError as error:
        yield failed(_CHECK, "no address of MongoDB is set", str(error))
    except ConfigurationError as error:
        yield failed(_CHECK, str(error), "Correct the setting: processes that need MongoDB don't start until then.")
    if unknown := unknown_variables(settings):
        advice = "They have no effect. Check the spelling; `plaudit config` shows all settings."
        yield warn(_CHECK, f"unknown variables {', '.join(unknown)}", advice)
