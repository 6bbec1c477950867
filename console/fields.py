"""Submitted forms: their numbers and texts, fields that are shown again, and values and pointers in words."""

import re
from collections.abc import Mapping
from functools import cache
from math import isfinite
from typing import Any, Final, NamedTuple

import orjson
from babel.core import Locale
from starlette.datastructures import ImmutableMultiDict

from console.api_client import Refused
from domain.languages import language_tag

Form = ImmutableMultiDict[str, str]
"""A submitted form, with the line breaks of its texts as `\n`."""

_LINE_BREAK: Final = re.compile(r"[\r\n]")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Of ASCII: Python itself also reads digits of other scripts, and `4_8` as 48."""

_NEW_WORD: Final = re.compile("(?<=[a-z])(?=[A-Z])")


def number(text: str) -> int | float | str | None:
    """The text as a number; None if it is blank, and the text itself if it is no finite number."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return text or None
    try:
        return int(text)
    except ValueError:  # a fraction, or too long for an integer
        fraction = float(text)
    return fraction if isfinite(fraction) else text


def in_one_line(text: str | None) -> str:
    """A text as an input of one line returns it: browsers remove line breaks."""
    return _LINE_BREAK.sub("", text or "")


def loaded_in(form: Mapping[str, str]) -> dict[str, Any]:
    """The values that a form was rendered with, from its field `loaded`. Raises Refused: that isn't JSON."""
    try:
        loaded = orjson.loads(form.get("loaded") or "{}")
    except ValueError as error:
        raise Refused(422, {"detail": "The form is incomplete. Reload the page."}) from error
    return loaded if isinstance(loaded, dict) else {}


class ShownAgain(NamedTuple):
    """A field of a form that is shown again: its text, and the stored one (`now`) if somebody else has changed that."""

    text: str
    now: str | None = None


def shown_again(form: Mapping[str, str] | None, stored: Mapping[str, str]) -> dict[str, ShownAgain]:
    """The fields of a refused form, by name: the submitted text, but the stored one in fields that the visitor left
    unchanged. `stored` has the current texts; without a form all fields have these. Raises Refused."""
    loaded = loaded_in(form or {})
    fields = {}
    for name, now in stored.items():
        typed = form.get(name, now) if form else now
        before = loaded.get(name, now)
        is_untouched = name in loaded and typed == before
        is_theirs = now not in (before, typed)
        fields[name] = ShownAgain(now) if is_untouched else ShownAgain(typed, now if is_theirs else None)
    return fields


def in_words(value: Any) -> str:
    """A value as readable text."""
    match value:
        case True:
            return "yes"
        case False:
            return "no"
        case None | "" | []:
            return "none"
        case list():
            return ", ".join(map(str, value))
    return str(value)


def language_in_words(tag: str | None) -> str:
    """A language tag as its English name: `Portuguese (Brazil)`; a tag without one as it is. Detection gives `zxx`, by
    ISO 639, to a text that is in no language."""
    if not tag or tag == "zxx":
        return "no language detected" if tag else "unknown"
    english = _english()
    language, *parts = language_tag(tag).split("-")
    name = english.languages.get(language)
    if not name or not parts:
        return name or tag
    details = [english.scripts.get(part) or english.territories.get(part) or "" for part in parts]
    return f"{name} ({', '.join(details) if all(details) else tag})"


@cache
def _english() -> Locale:
    """The names of languages. They are loaded when a page first shows one: 26 ms, and 5 MB of memory."""
    return Locale("en")


def is_about(refused: Refused | None, name: str) -> bool:
    """True if an error concerns the field with this name."""
    return refused is not None and any(name in each["pointer"].split("/") for each in refused.errors)


def place_in_words(pointer: str, labels: Mapping[str, str] | None = None) -> str:
    """A JSON pointer (RFC 6901) into a request as readable text: the label of the field, whose name may have dots, else
    the name split into words. List items are counted from 1; empty for the request itself."""
    labels = labels or {}
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    # A leading index says nothing: the console sends one item at a time, also where the API takes a list.
    parts = parts[1:] if parts and parts[0].isdecimal() else parts
    labelled = next((at for at in range(len(parts), 0, -1) if ".".join(parts[:at]) in labels), 0)
    names = [labels[".".join(parts[:labelled])]] if labelled else []
    for part in parts[labelled:]:
        if part.isdecimal() and names:
            # A label may be a sentence, after which a mere number would read as a part of it.
            names[-1] += f"{', item' if labelled and len(names) == 1 else ''} {int(part[:9]) + 1}"
        else:
            names.append(_NEW_WORD.sub(" ", part).lower())
    words = ", ".join(names)
    return words[:1].upper() + words[1:]
