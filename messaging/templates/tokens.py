"""The tokens of a Liquid template, found in linear time.

python-liquid's lexer backtracks over unclosed tags: 20 kB of spaces after `{{` take it 17 seconds.
"""

import re
from collections.abc import Iterator
from typing import Final, NoReturn

from liquid.token import TOKEN_CONTENT, TOKEN_EXPRESSION, TOKEN_OUTPUT, TOKEN_TAG, Token

MAX_STATEMENTS: Final = 1_000
"""Maximum number of `{{ }}` and `{% %}` in a part of a template."""

MAX_STATEMENT_LENGTH: Final = 1_000
"""Maximum characters between `{{` and `}}`, or `{%` and `%}`."""

MAX_STATEMENTS_LENGTH: Final = 30_000
"""Maximum characters of all statements of a part: parsing them takes far longer than the text between them."""

_MAX_BRACKETS: Final = 20
"""Maximum number of brackets in a statement, which the lexer of expressions searches to its end for each closer."""

_OPENER: Final = re.compile(r"\{[{%#]")
_CLOSERS: Final = {"{{": "}}", "{%": "%}"}
_NAME: Final = re.compile(r"#|\w+")
_END: Final = {name: re.compile(rf"\{{%-?\s{{0,9}}end{name}\s{{0,9}}-?%\}}") for name in ("raw", "comment")}


class SourceError(ValueError):
    """An invalid source; `line` (from 1) says where, `reason` says why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def tokens(source: str) -> Iterator[Token]:
    """The tokens that python-liquid's parser expects, without comments. Raises SourceError."""
    at = 0
    statements = 0
    length = 0
    is_trimmed = False
    while opener := _OPENER.search(source, at):
        start, kind = opener.start(), opener.group()
        yield from _content(source, at, start, is_trimmed=is_trimmed, trim=source.startswith("-", start + 2))
        body, at = _statement(source, start, kind)
        is_trimmed = source[at - 3] == "-"
        statements, length = statements + 1, length + len(body)
        if statements > MAX_STATEMENTS or length > MAX_STATEMENTS_LENGTH:
            most = f"{MAX_STATEMENTS} statements, with {MAX_STATEMENTS_LENGTH} characters in all"
            refuse(source, start, f"a part of a template may have at most {most}")
        if kind == "{{":
            yield Token(TOKEN_OUTPUT, source[start:at], start, source)
            yield Token(TOKEN_EXPRESSION, body, start, source)
            continue
        found = _NAME.match(body) or refuse(source, start, "a tag needs a name: `{% if … %}`")
        name, expression = found.group(), body[found.end() :].strip()
        if name in _END:
            end = _END[name].search(source, at) or refuse(source, start, f"`{name}` is not closed by `end{name}`")
            if name == "raw":
                trim = source.startswith("-", end.start() + 2)
                yield from _content(source, at, end.start(), is_trimmed=is_trimmed, trim=trim)
            at, is_trimmed = end.end(), source[end.end() - 3] == "-"
        elif name != "#":
            yield Token(TOKEN_TAG, name, start, source)
            if expression:
                yield Token(TOKEN_EXPRESSION, expression, start, source)
    yield from _content(source, at, len(source), is_trimmed=is_trimmed, trim=False)


def _content(source: str, start: int, end: int, *, is_trimmed: bool, trim: bool) -> Iterator[Token]:
    text = source[start:end]
    text = text.lstrip() if is_trimmed else text
    text = text.rstrip() if trim else text
    if text:
        yield Token(TOKEN_CONTENT, text, start, source)


def _statement(source: str, start: int, opener: str) -> tuple[str, int]:
    """The content between an opener and its closer, and the index after that. Raises SourceError."""
    if opener == "{#":
        refuse(source, start, "comments are `{% comment %}…{% endcomment %}`; in CSS write `{ #` with a space")
    end = source.find(_CLOSERS[opener], start + 2, start + 4 + MAX_STATEMENT_LENGTH)
    if end < 0:
        refuse(source, start, f"`{opener}` is not closed within {MAX_STATEMENT_LENGTH} characters")
    body = source[start + 2 : end].removeprefix("-").removesuffix("-").strip()
    if body.count("(") + body.count("[") > _MAX_BRACKETS:
        refuse(source, start, f"it is nested too deeply: a statement may have at most {_MAX_BRACKETS} brackets")
    return body, end + 2


def refuse(source: str, at: int, reason: str) -> NoReturn:
    """Raise SourceError with the line of this index in the source."""
    raise SourceError(source.count("\n", 0, at) + 1, reason)
