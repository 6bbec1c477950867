"""The AsyncAPI document, as tools of that standard need it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from messaging.asyncapi import asyncapi_document
from messaging.topics import TopicNames


def _values_of(name: str, part: Any) -> Iterator[Any]:
    """The values of all members of this name in a part of the document."""
    if isinstance(part, dict):
        yield from (value for member, value in part.items() if member == name)
        for each in part.values():
            yield from _values_of(name, each)
    elif isinstance(part, list):
        for each in part:
            yield from _values_of(name, each)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncapi_document(TopicNames("plaudit."), "1")


def test_discriminators_are_names_of_properties(document: dict[str, Any]) -> None:
    """OpenAPI has objects there, of which parsers of AsyncAPI make no document."""
    assert set(_values_of("discriminator", document)) == {"action", "kind"}
