"""The configuration as it holds, with the addresses of a running `plaudit up`, and no secret."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from plaudit.config import MissingAddressError, Settings
from plaudit.credentials import shown_configuration


def effective_configuration(settings: Settings) -> dict[str, Any]:
    """The settings that commands in this folder work with, as JSON, secrets hidden.

    Where a `plaudit up` runs with the same data folder, its addresses, its broker and how Kafka lets in stand where
    nothing is configured, and `runningUp` names the file that tells them; else that is null.
    """
    shown = settings.model_dump(mode="json")
    endpoints = settings.endpoints()
    shown["runningUp"] = None if endpoints is None else str(settings.endpoints_file)
    try:
        shown["mongo"]["uri"] = settings.mongo_uri()
        connection = settings.kafka_connection()
    except MissingAddressError:
        return _hidden(shown)
    if endpoints is not None:
        address = urlsplit(settings.http_address())
        shown["http"]["host"], shown["http"]["port"] = address.hostname, address.port
        shown["mongo"]["database"] = settings.mongo_database()
    if endpoints is not None and settings.kafka.bootstrap_servers is None:
        shown["broker"] = "kafka" if connection.idempotence else "tansu"
    shown["kafka"] |= {
        "bootstrap_servers": connection.bootstrap_servers,
        "security_protocol": connection.security_protocol,
        "sasl_mechanism": connection.sasl_mechanism,
        "sasl_username": connection.sasl_username,
        "idempotence": connection.idempotence,
    }
    return _hidden(shown)


def _hidden(shown: dict[str, Any]) -> dict[str, Any]:
    hidden: dict[str, Any] = shown_configuration(shown)
    return hidden
