"""The texts of errors of messages, which are logged, don't contain what customers wrote."""

import importlib
import pkgutil
from typing import Annotated, Any, Final

import pytest
from pydantic import Field, TypeAdapter, ValidationError

import messaging
from messaging.reading_errors import invalid_content
from messaging.schemas import MOMENT_MESSAGE, AtMost, Message, Moment, OnlyTrue

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


class _Numbers(Message):
    whole: Annotated[int, Field(ge=1, le=5)] = 1
    number: Annotated[float, Field(gt=0)] = 1.0
    flag: bool = True
    text: Annotated[str, Field(max_length=3)] = ""
    words: Annotated[list[str], Field(min_length=1)] | None = None
    agreed: OnlyTrue = True
    hashes: Annotated[dict[str, str], AtMost(1)] | None = None
    at: Moment | None = None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"whole": "x"}, "Must be a whole number"),
        ({"whole": 1.5}, "Must be a whole number"),
        ({"whole": 0}, "Must be at least 1"),
        ({"whole": 6}, "Must be at most 5"),
        ({"number": "x"}, "Must be a number"),
        ({"number": 0}, "Must be greater than 0"),
        ({"flag": "x"}, "Must be true or false"),
        ({"text": 5}, "Must be a text"),
        ({"text": "four"}, "Must have at most 3 characters"),
        ({"words": "x"}, "Must be a list"),
        ({"words": []}, "Must have at least 1 item, not 0"),
        *(({"agreed": each}, "Must be true") for each in (False, 1, "yes")),
        ({"hashes": {"a": "1", "b": "2"}}, "Must have at most 1 item, not 2"),
        ({"at": 5}, MOMENT_MESSAGE),
        ({"at": "soon"}, f"{MOMENT_MESSAGE} (input is too short)"),
        ({"at": "2026-02-30T00:00:00Z"}, f"{MOMENT_MESSAGE} (day value is outside expected range)"),
    ],
)
def test_texts_of_errors_are_plain(value: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        _Numbers.model_validate(value)
    assert [error.message for error in invalid_content(refused.value).errors] == [message]
