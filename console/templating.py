"""The Jinja environment of the console's templates, and its filters."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from console import static_files
from console.api_client import segment
from console.content_hashes import hash_for_decision, hash_of_reply, hash_of_return, hash_of_review
from console.fields import in_words, is_about, language_in_words, place_in_words
from domain.invisible import unless_blank

_FOLDER: Final = Path(__file__).parent / "templates"
_CONFIRMATION: Final = "done"
"""The parameter that confirms the last action: other addresses don't inherit it."""

_CHARACTERS: Final = 600
_LINES: Final = 15
"""Lengths of an excerpt."""

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def age(moment: str, now: datetime | None = None) -> str:
    """The time since a moment in its two largest units: `1 d 4 h`, `12 min`."""
    seconds = int(((now or datetime.now(UTC)) - _parse(moment)).total_seconds())
    parts: list[str] = []
    for name, size in _UNITS:
        number, seconds = divmod(max(0, seconds), size)
        if number or parts:
            parts.append(f"{number} {name}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "now"


def moment(text: str) -> str:
    """A moment as `21 Nov 2026, 11:02`, in UTC."""
    return f"{_parse(text):%-d %b %Y, %H:%M}"


def at(text: str) -> Markup:
    """A moment as a `time` element: in UTC, until the console's script replaces it by the visitor's local time."""
    return Markup('<time class="at" datetime="{}">{}</time>').format(text, moment(text))


def ago(text: str, late: datetime | None = None) -> Markup:
    """The time since a moment as a `time` element, with the moment as its tooltip; marked if it is before `late`."""
    mark = Markup(' class="late"') if late and is_before(text, late) else ""
    return Markup('<time datetime="{}" title="{} UTC"{}>{}</time>').format(text, moment(text), mark, age(text))


def legible(text: str | None) -> str:
    """The text, empty if it has no visible characters: a link needs a visible label."""
    return unless_blank(text) or ""


def clip(text: str, length: int) -> str:
    """A text cut to `length` characters, the last one an ellipsis if it was longer. It isn't cut at a space: not every
    language has them, and the last one may be near the beginning."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def excerpt(text: str) -> str:
    """The beginning of a review, so that the next one stays in reach: hundreds of line breaks would push it away."""
    lines = text.splitlines()
    if len(lines) > _LINES:
        text = "\n".join((*lines[: _LINES - 1], "…"))
    return clip(text, _CHARACTERS)


def grouped(number: int) -> str:
    """A number with its thousands apart: `12,345`."""
    return f"{number:,}"


def day(text: str) -> str:
    """The day of a moment as `21 Nov 2026`, in UTC."""
    return f"{_parse(text):%-d %b %Y}"


def is_before(text: str, other: datetime) -> bool:
    """True if a moment is before `other`."""
    return _parse(text) < other


def stars(rating: float) -> int:
    """The number of full stars of a rating, halves rounded up."""
    return int(rating + 0.5)


def money(amount: float | None, currency: str | None) -> str:
    """An amount with its currency, if that is known; a dash if the amount is unknown."""
    return "\N{EN DASH}" if amount is None else f"{amount:,.2f} {currency or ''}".rstrip()


def address(path: str, query: Mapping[str, Any], **changes: Any) -> str:
    """An address with query parameters; `changes` replace them, and None removes one."""
    merged = {**query, **changes}
    parameters = {name: value for name, value in merged.items() if value not in (None, "") and name != _CONFIRMATION}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text)


class _Environment(Environment):
    """Looks up keys of dicts before attributes: rows are dicts, and a failed attribute lookup is slow."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """The value of `obj.attribute`: methods of dict take precedence over keys."""
        if type(obj) is dict and attribute in obj and not hasattr(dict, attribute):
            return obj[attribute]
        return super().getattr(obj, attribute)


def _pages() -> Environment:
    environment = _Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        in_words=in_words,
        is_about=is_about,
        language_in_words=language_in_words,
        place_in_words=place_in_words,
        legible=legible,
        clip=clip,
        excerpt=excerpt,
        hash_for_decision=hash_for_decision,
        hash_of_reply=hash_of_reply,
        hash_of_return=hash_of_return,
        hash_of_review=hash_of_review,
        age=age,
        at=at,
        ago=ago,
        day=day,
        grouped=grouped,
        is_before=is_before,
        stars=stars,
        money=money,
        segment=segment,
    )
    environment.globals.update(address=address, scripts=static_files.SCRIPTS, static=static_files.PREFIX)
    return environment


PAGES: Final = _pages()
