"""The language of mail templates: Liquid, with access to its data alone.

It has variables, `if`, `unless`, `case`, `for`, `assign`, `capture`, `cycle`, comments, `raw`, and the filters listed
here. No template can load another one, and data can't be declared safe. Work is bounded by `MAX_STEPS` during
rendering, and by the number and length of statements during parsing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TextIO, cast

from liquid import Environment, Mode, RenderContext
from liquid.builtin.output import Output, OutputNode
from liquid.builtin.tags.if_tag import IfTag
from liquid.builtin.tags.unless_tag import UnlessTag
from liquid.exceptions import LiquidError, LiquidTypeError
from liquid.stringify import to_liquid_string
from liquid.token import TOKEN_CONTENT, TOKEN_ILLEGAL, TOKEN_OUTPUT, Token
from liquid.undefined import Undefined

from messaging.templates.checks import check
from messaging.templates.tokens import SourceError, tokens
from messaging.templates.work import WorkForTag, WorkTemplate

MAX_SOURCE_BYTES: Final = 100_000
"""Maximum bytes of a part of a template."""

TAGS: Final = (
    *(TOKEN_CONTENT, TOKEN_OUTPUT, TOKEN_ILLEGAL),
    *("assign", "break", "capture", "case", "continue", "cycle", "for", "if", "unless"),
)
FILTERS: Final = (
    *("append", "at_most", "capitalize", "concat", "default", "downcase", "escape", "first", "join", "last", "lstrip"),
    *("map", "minus", "modulo", "newline_to_br", "plus", "prepend", "remove", "remove_first", "replace"),
    *("replace_first", "reverse", "rstrip", "size", "slice", "sort", "sort_natural", "split", "strip"),
    *("strip_newlines", "times", "truncate", "truncatewords", "upcase", "url_encode", "where"),
)
_NESTING: Final = 10
_NOT_TEXT: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_TOO_DEEP: Final = "it is nested too deeply"


class _OneValueNode(OutputNode):
    """`{{ }}` with a single value: a list or an object would be written in Python's notation."""

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        value = self.expression.evaluate(context)
        if isinstance(value, Mapping | list | tuple | range) and not isinstance(value, Undefined):
            reason = "this has several values: use one of its fields, or `join` them"
            raise LiquidTypeError(reason, token=self.token)
        return buffer.write(to_liquid_string(value, context.autoescape))


class _Output(Output):
    node_class = _OneValueNode


class _StrictIf(IfTag):
    mode = Mode.STRICT


class _StrictUnless(UnlessTag):
    mode = Mode.STRICT


class _Environment(Environment):
    template_class = WorkTemplate
    block_nesting_limit = _NESTING

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        super().setup_tags_and_filters(extra=False)
        for tag in (_Output, _StrictIf, _StrictUnless, WorkForTag):
            self.add_tag(tag)
        self.tags = {name: self.tags[name] for name in TAGS}
        self.filters = {name: self.filters[name] for name in FILTERS}

    def tokenizer(self) -> Callable[[str], Iterator[Token]]:
        return tokens


_TEXT: Final = _Environment(autoescape=False)
_HTML: Final = _Environment(autoescape=True)


class TemplateLanguage:
    """The language with the variables of one kind of mail.

    `sample` is example data of a mail: templates may use what it has, and nothing else. Its lists must not be empty.
    """

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._sample: Final = sample
        self._compiled: Final = lru_cache(maxsize=64)(self._compile)

    def render(self, source: str, data: Mapping[str, Any], *, html: bool) -> str:
        """Render a source with the data: bounded, and without control characters. Raises SourceError.

        In HTML the data are escaped: they stay text, whatever they contain.
        """
        template = self._compiled(source, html)
        if isinstance(template, SourceError):
            raise SourceError(template.line, template.reason)
        try:
            return _NOT_TEXT.sub("", template.written(data))
        except LiquidError as error:
            raise _source_error(error, source) from error
        except RecursionError as error:
            raise SourceError(1, _TOO_DEEP) from error
        except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
            raise SourceError(1, f"{type(error).__name__}: {error}"[:300]) from error

    def _compile(self, source: str, html: bool) -> WorkTemplate | SourceError:
        """The template, or its error, which is cached, too: an invalid one takes as long to parse."""
        if len(source.encode(errors="replace")) > MAX_SOURCE_BYTES:
            return SourceError(1, f"a part of a template may have at most {MAX_SOURCE_BYTES} bytes")
        try:
            template = (_HTML if html else _TEXT).from_string(source)
            check(template, self._sample, FILTERS)
        except SourceError as error:
            return error
        except LiquidError as error:
            return _source_error(error, source)
        except RecursionError:
            return SourceError(1, _TOO_DEEP)
        return cast(WorkTemplate, template)


def _source_error(error: LiquidError, source: str) -> SourceError:
    """The error of python-liquid with its line, the last one if more input was expected."""
    match error.__cause__:
        case SourceError() as cause:
            return cause
        case RecursionError():
            return SourceError(1, _TOO_DEEP)
        case ValueError() as cause:  # a number with thousands of digits
            return SourceError(1, f"it can't be parsed: {cause}"[:300])
    position = error.context()
    at_end = error.token is not None and error.token.start_index < 0
    line = position[0] if position else source.count("\n") + 1 if at_end else 1
    return SourceError(line, str(error.message or "it can't be parsed")[:300])
