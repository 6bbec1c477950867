"""Rendering of mails. See `messaging.templates.language` for what a template may contain.

Checking or rendering a mail takes up to a few tenths of a second of CPU: too long for an event loop.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Literal, ParamSpec, TypeVar

from domain.templates import MailTemplate
from messaging.templates.language import TemplateLanguage
from messaging.templates.order_review_request import (
    DEFAULT_ORDER_REVIEW_REQUEST,
    ORDER_REVIEW_REQUEST,
    SAMPLE_CONTEXT,
    SPARSE_CONTEXT,
)
from messaging.templates.tokens import SourceError

P = ParamSpec("P")
T = TypeVar("T")

Part = Literal["subject", "text", "html"]
PARTS: Final[tuple[Part, ...]] = ("subject", "text", "html")

BUILT_IN: Final[Mapping[str, MailTemplate]] = {ORDER_REVIEW_REQUEST: DEFAULT_ORDER_REVIEW_REQUEST}
"""The built-in templates by name, used unless another one is saved."""

SUBJECT_LENGTH: Final = 250
"""Maximum characters of a subject; the rest is cut off."""

_LANGUAGE: Final = TemplateLanguage(SAMPLE_CONTEXT)
_THREAD: Final = ThreadPoolExecutor(1, "templates")


class TemplateError(ValueError):
    """A template can't be used: `part` and `line` (from 1) say where, `reason` says why. None of it is personal."""

    def __init__(self, part: Part, line: int, reason: str) -> None:
        super().__init__(f"{part}, line {line}: {reason}")
        self.part = part
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RenderedMail:
    """A mail ready to send. The subject is one line."""

    subject: str
    text: str
    html: str


def render(template: MailTemplate, context: Mapping[str, Any]) -> RenderedMail:
    """Render a mail with data from `order_review_context`.

    Missing data is left empty; in HTML, data stays text. Raises TemplateError, also for a part that comes out empty.
    """
    subject, text, html = (_render_part(part, getattr(template, part), context) for part in PARTS)
    return RenderedMail(" ".join(subject.split())[:SUBJECT_LENGTH], text, html)


def check(template: MailTemplate) -> None:
    """Raise TemplateError for an unusable template, or for one that names data that no mail has."""
    for part in PARTS:
        check_part(part, getattr(template, part))


def check_part(part: Part, source: str) -> None:
    """Raise TemplateError, as `check` does for a whole template."""
    _render_part(part, source, SAMPLE_CONTEXT)
    _render_part(part, source, SPARSE_CONTEXT, "if only the order, its store and its language are known")


async def in_template_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function that checks or renders mails in a thread, one at a time; returns or raises as `work` does."""
    return await asyncio.get_running_loop().run_in_executor(_THREAD, lambda: work(*args, **kwargs))


def _render_part(part: Part, source: str, context: Mapping[str, Any], where: str = "") -> str:
    try:
        rendered = _LANGUAGE.render(source, context, html=part == "html")
    except SourceError as error:
        raise TemplateError(part, error.line, error.reason) from error
    if not rendered.strip():
        raise TemplateError(part, 1, f"it comes out empty {where}".strip())
    return rendered
