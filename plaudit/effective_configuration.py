"""Loading the configuration, its errors in words, and the effective one: with the addresses of a running `plaudit up`,
secrets masked."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_origin
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import BaseModel, ValidationError
from pydantic_settings import DotEnvSettingsSource, SettingsError

from messaging.reading_errors import error_message
from plaudit.config import MissingAddressError, Settings
from plaudit.credentials import shown_configuration

UNREADABLE: Final = (ValidationError, SettingsError, UnicodeDecodeError, OSError)
"""Errors of loading the configuration; `wrong_settings` describes them."""

_PREFIX: Final = "PLAUDIT_"


def effective_configuration(settings: Settings) -> dict[str, Any]:
    """The settings that apply to commands in this folder, as JSON, secrets masked.

    Where nothing is configured, addresses, broker and the login at Kafka are those of a `plaudit up` that runs with the
    same data folder. `runningUp` is the path of its file of addresses, null without one. Raises ConfigurationError if
    others are configured beside some of its addresses.
    """
    shown: dict[str, Any] = shown_configuration(_with_addresses(settings))
    return shown


def _with_addresses(settings: Settings) -> dict[str, Any]:
    shown = settings.model_dump(mode="json")
    endpoints = settings.endpoints()
    shown["runningUp"] = None if endpoints is None else str(settings.endpoints_file)
    try:
        shown["mongo"]["uri"] = settings.mongo_uri()
        connection = settings.kafka_connection()
    except MissingAddressError:
        return shown
    if endpoints is not None:
        address = urlsplit(settings.http_address())
        shown["http"]["host"], shown["http"]["port"] = address.hostname, address.port
        shown["mongo"]["database"] = settings.mongo_database()
    if endpoints is not None and not settings.kafka.bootstrap_servers:
        shown["broker"] = "kafka" if connection.idempotence else "tansu"
    shown["kafka"] |= {
        "bootstrap_servers": connection.bootstrap_servers,
        "security_protocol": connection.access.security_protocol,
        "sasl_mechanism": connection.access.sasl_mechanism,
        "sasl_username": connection.access.sasl_username,
        "idempotence": connection.idempotence,
    }
    return shown


def unknown_variables(settings: Settings) -> list[str]:
    """Variables of the environment and of `.env` that start with `PLAUDIT_` but are no settings, sorted."""
    # The source returns the names in the file in lower case, whatever their case there.
    in_file = {name.upper() for name in DotEnvSettingsSource(type(settings)).env_vars}
    known = set(_variables(type(settings), _PREFIX))
    named = sorted(name for name in in_file | set(os.environ) if name.startswith(_PREFIX))
    # After the prefix of a mapping any name is one of its keys.
    mappings = tuple(name for name in known if name.endswith("__"))
    return [name for name in named if name not in known and not name.startswith(mappings)]


def _variables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """The variables of all settings; for a mapping also the prefix of the variables for its keys."""
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        yield variable
        if get_origin(field.annotation) is dict:
            yield variable + "__"
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _variables(field.annotation, variable + "__")


def loaded_settings() -> Settings:
    """The configuration. Raises an error of UNREADABLE."""
    check_dotenv(Path(".env"))
    return Settings()


def wrong_settings(error: ValidationError | SettingsError | UnicodeDecodeError | OSError) -> str:
    """A description of the errors: by variable, or of `.env` as a whole."""
    match error:
        case DotEnvError():
            return str(error)
        case SettingsError():
            return _describe_json_error(error)
        case UnicodeDecodeError():
            return f".env in the current folder can't be read: byte {error.start + 1} is not UTF-8."
        case OSError():
            return f".env in the current folder can't be read: {error.strerror}."
    return "; ".join(f"{_variable_name(detail['loc'])}: {error_message(detail)}" for detail in error.errors())


def _describe_json_error(error: SettingsError) -> str:
    """A description that names the variable whose value must be JSON and isn't."""
    value = getattr(error.__cause__, "doc", None)
    variables = {**dotenv_values(".env"), **os.environ}
    named = sorted(name for name, text in variables.items() if name.upper().startswith(_PREFIX) and text == value)
    form = 'must be JSON, a list like ["a", "b"] or an object like {"a": "b"}'
    return f"{' or '.join(named)}: {form}, but can't be parsed ({error.__cause__})" if named else str(error)


def _variable_name(location: tuple[int | str, ...]) -> str:
    return _PREFIX + "__".join(str(part).upper() for part in location)


class DotEnvError(SettingsError):
    """A line of `.env` can't be parsed; without it a setting would silently have another value than intended."""


def check_dotenv(file: Path) -> None:
    """Raises DotEnvError for a line that can't be parsed, OSError or UnicodeDecodeError for an unreadable file."""
    if not file.is_file():
        return
    with file.open(encoding="utf-8") as lines:
        for part in parse_stream(lines):
            if part.error:
                text = part.original.string
                empty = text[: len(text) - len(text.lstrip())].count("\n")
                raise DotEnvError(
                    f"{file}, line {part.original.line + empty}: must be NAME=value, with all quotes closed."
                )
