"""The language of mail templates: a part of Jinja2 that can neither reach beyond its data nor do unbounded work.

There are variables, `if`, `for` (not within another), a few filters and tests. There are no calls, assignments,
macros, includes or multiplications, and text can't be declared safe: what can grow without bounds or run for long
isn't in the language, so that it needn't be stopped while it runs. What is left takes time and memory in proportion
to the template (`MAX_NODES`) times the list that it goes through; what it writes is bounded by `MAX_OUTPUT_BYTES`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from jinja2 import ChainableUndefined, Template, TemplateSyntaxError, pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.filters import make_attrgetter, sync_do_join
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.tests import TESTS as JINJA_TESTS

from messaging.template_checks import MAX_NODES, TOO_DEEP, TOO_MANY_NODES, SourceError, check

MAX_SOURCE_BYTES: Final = 100_000
"""How large a part of a template may be."""

MAX_OUTPUT_BYTES: Final = 200_000
"""How much a part may write: two parts fit a message of one MiB even where every character is escaped."""

FILTERS: Final = (
    *("capitalize", "d", "default", "e", "escape", "first", "join", "last", "length", "lower", "map", "sort"),
    *("striptags", "title", "trim", "truncate", "upper", "urlencode"),
)
TESTS: Final = ("defined", "undefined", "none", "odd", "even")

_NOT_TEXT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_FILE: Final = "<template>"
_MAX_TOKENS: Final = 10 * MAX_NODES
"""More than so many nodes can be made of; even `{{ a }}` has five for two."""


class _Context(Context):
    """The data of one rendering, and how many characters its joins may still make."""

    left = MAX_OUTPUT_BYTES

    def charge(self, characters: int) -> None:
        """Count characters. Raises SourceError when there are too many."""
        self.left -= characters
        if self.left < 0:
            raise SourceError(1, f"it joins more than {MAX_OUTPUT_BYTES} characters")


@pass_context
def _join(context: _Context, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    """Jinja's join, the one filter whose result can be much larger than what goes in, with its cost counted."""
    # As it takes the context, it isn't computed while the template is compiled either.
    items = list(value if attribute is None else map(make_attrgetter(context.environment, attribute), value))
    context.charge(sum(len(str(item)) for item in items) + len(str(d)) * len(items))
    return sync_do_join(context.eval_ctx, items, d)


class _Environment(ImmutableSandboxedEnvironment):
    """Only what is listed above. What has no value is written as nothing."""

    context_class = _Context

    def __init__(self, *, autoescape: bool) -> None:
        super().__init__(
            autoescape=autoescape,
            undefined=ChainableUndefined,
            finalize=lambda value: "" if value is None else value,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            cache_size=0,
            optimized=False,
        )
        self.filters = {name: JINJA_FILTERS[name] for name in FILTERS} | {"join": _join}
        self.tests = {name: JINJA_TESTS[name] for name in TESTS}
        self.globals = {}

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field: also where a dict has a method of that name."""
        return self.getitem(obj, attribute) if isinstance(obj, Mapping) else super().getattr(obj, attribute)


_TEXT: Final = _Environment(autoescape=False)
_HTML: Final = _Environment(autoescape=True)


class TemplateLanguage:
    """The language with the variables of one kind of mail.

    `sample` is data of a mail: what it has may be used in a template, nothing else. Its lists must not be empty.
    """

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._sample: Final = sample
        self._compiled: Final = lru_cache(maxsize=64)(self._compile)

    def render(self, source: str, data: Mapping[str, Any], *, html: bool) -> str:
        """What a source makes of the data: bounded, without control characters. Raises SourceError.

        In HTML the data are escaped: they stay text, whatever they hold.
        """
        template = self._compiled(source, html)
        written, size = [], 0
        try:
            for piece in template.generate(data):
                size += len(piece.encode(errors="replace"))
                if size > MAX_OUTPUT_BYTES:
                    raise SourceError(1, f"it writes more than {MAX_OUTPUT_BYTES} bytes")
                written.append(piece)
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(_line_of(error), f"{type(error).__name__}: {error}"[:300]) from error
        return _NOT_TEXT.sub("", "".join(written))

    def _compile(self, source: str, html: bool) -> Template:
        environment = _HTML if html else _TEXT
        if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
            raise SourceError(1, f"a part of a template may have {MAX_SOURCE_BYTES} bytes")
        try:
            # Parsing takes ten times as long as this, which stops early.
            if any(True for _ in islice(environment.lexer.tokeniter(source, None), _MAX_TOKENS, None)):
                raise SourceError(1, TOO_MANY_NODES)
            parsed = environment.parse(source)
            check(parsed, self._sample)
            return environment.from_string(parsed)
        except TemplateSyntaxError as error:
            raise SourceError(error.lineno, error.message or "it can't be read") from error
        except SourceError:
            raise
        except (RecursionError, SyntaxError, MemoryError) as error:
            raise SourceError(1, TOO_DEEP) from error
        except ValueError as error:  # a number of thousands of digits
            raise SourceError(1, f"it can't be read: {error}"[:300]) from error


def _line_of(error: Exception) -> int:
    """The line of the template in which it failed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _FILE]
    return lines[-1] or 1 if lines else 1
