"""Forms of the console's pages, read up to a maximum size."""

import asyncio
import re
from collections.abc import Iterator
from typing import Final

from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Scope

from api.web.body_parts import body_parts
from api.web.large_bodies import FORM_THREAD, LARGE
from api.web.problems import ProblemError, ProblemKind

MAX_FORM_BYTES: Final = 8 * 1024 * 1024
"""Maximum bytes of a form: it may hold two texts of 1 MiB, in which browsers write each byte that is no letter as
three."""

_URLENCODED: Final = b"application/x-www-form-urlencoded"
_ESCAPES: Final = re.compile("%[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*+")
"""Escapes in sequence. The pattern begins with a character, because Python finds that much faster than a group, and is
possessive, so that Python notes no place to go back to for each escape."""


async def read_form(request: Request, most_bytes: int, most_fields: int) -> list[tuple[str, str]]:
    """The names and values of a form without files, in order. Raises ProblemError if it has more than `most_bytes`, or
    can't be read.

    A large form is parsed in a thread: to decode 8 MiB takes seconds.
    """
    too_large = ProblemError(ProblemKind.TOO_LARGE, f"A form may have at most {most_bytes} bytes here.")
    cut_off = _unreadable("The connection ended before the form did.")
    parts = body_parts(request, most_bytes, too_large=too_large, cut_off=cut_off)
    content = b"".join([part async for part in parts])
    try:
        if len(content) <= LARGE:
            return await _parsed(request.scope, content, most_fields)
        return await FORM_THREAD.run(lambda: asyncio.run(_parsed(request.scope, content, most_fields)))
    except HTTPException as error:
        raise _unreadable(error.detail) from error


async def _parsed(scope: Scope, content: bytes, most_fields: int) -> list[tuple[str, str]]:
    async def received() -> Message:
        return {"type": "http.request", "body": content}

    form = Request(scope, received)
    if parse_options_header(form.headers.get("content-type"))[0] == _URLENCODED:
        return _urlencoded(content, most_fields)
    fields = await form.form(max_files=0, max_fields=most_fields, max_part_size=len(content))
    return [(name, str(value)) for name, value in fields.multi_items()]


def _urlencoded(content: bytes, most_fields: int) -> list[tuple[str, str]]:
    """The fields as Starlette reads them, but without its 1.5 GiB of memory and its seconds for 8 MiB of `%`.

    Raises HTTPException if there are too many.
    """
    fields = list[tuple[str, str]]()
    for field in _separate(content.replace(b"+", b" ")):
        if len(fields) == most_fields:
            raise HTTPException(400, f"Too many fields. Maximum number of fields is {most_fields}.")
        name, _, value = field.decode("latin-1").partition("=")
        fields.append((_unescaped(name), _unescaped(value)))
    return fields


def _separate(content: bytes) -> Iterator[bytes]:
    """The parts between `&` that aren't empty, one at a time: there can be millions."""
    start = 0
    while start < len(content):
        end = content.find(b"&", start)
        if end == -1:
            end = len(content)
        if end > start:
            yield content[start:end]
        start = end + 1


def _unescaped(text: str) -> str:
    """The text without percent-encoding, as `urllib.parse.unquote` returns it; a `%` that encodes nothing stays."""
    return _ESCAPES.sub(lambda each: bytes.fromhex(each[0].replace("%", "")).decode(errors="replace"), text)


def _unreadable(why: str) -> ProblemError:
    return ProblemError(ProblemKind.MALFORMED_BODY, f"The form can't be read. {why}")
