"""The texts of errors of messages, which are logged, don't contain what customers wrote."""

import importlib
import pkgutil
from typing import Any, Final

import pytest
from pydantic import TypeAdapter, ValidationError

import messaging

PUBLISHED: Final = {"_TOMBSTONE", "REVIEW_CLAIMED"}
"""Adapters of what is only published: no value is read with them."""

WRONG: Final[list[Any]] = [
    "SECRET",
    ["SECRET"],
    [{"title": ["SECRET"]}],
    {"action": "", "kind": "", "text": "SECRET"},
    {"action": "report", "explanation": ["SECRET"], "new": "SECRET"},
    {"action": "create", "return": {"resolution": ["SECRET"], "new": "SECRET"}},
    {"kind": "moderation", "reason": ["SECRET"], "new": "SECRET"},
]


def _adapters() -> dict[str, TypeAdapter[Any]]:
    """Return all adapters with which messages are read, by name."""
    modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(messaging.__path__, "messaging.")]
    named = {name: value for module in modules for name, value in vars(module).items()}
    return {name: value for name, value in named.items() if isinstance(value, TypeAdapter) and name not in PUBLISHED}


ADAPTERS: Final = _adapters()


@pytest.mark.parametrize("name", ADAPTERS)
def test_text_of_an_error_does_not_contain_the_value(name: str) -> None:
    texts = []
    for value in WRONG:
        try:
            ADAPTERS[name].validate_python(value, strict=False)
        except ValidationError as error:
            texts.append(str(error))
    assert texts
    assert [text for text in texts if "SECRET" in text] == []
