"""Reading JSON bodies: media type, size, syntax, content, in this order."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import TypeAdapter
from python_multipart.multipart import parse_options_header
from starlette.requests import Request
from starlette.types import Scope

from api.services import Services
from api.web.body_parts import body_parts
from api.web.ignored import note_ignored
from api.web.large_bodies import JSON_THREAD, LARGE
from api.web.problems import MAX_ERRORS, ProblemError, ProblemKind, invalid, invalid_at, item_error
from api.web.queries import query_parameters
from messaging.reading import Read, Reader, has_too_many_parts, reader_of
from messaging.reading_errors import UNKNOWN_FIELD, InvalidContentError
from messaging.reading_shapes import folded_name

T = TypeVar("T")

_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_ANNOUNCEMENTS: Final = frozenset({b"content-length", b"transfer-encoding"})
_UNEXPECTED: Final = (
    "This request takes no body, only its path and query. Nothing was accepted: send it without a body."
)


class JsonBody(Generic[T]):
    """A dependency that reads and validates the body; an unusable body ends the request with a problem.

    FastAPI would read a body before it checks permissions. `openapi` is its part of the document, with these examples
    by name. Hidden properties aren't for HTTP clients. The response names the ignored fields. A body that isn't
    required may be empty or null.
    """

    def __init__(
        self,
        adapter: TypeAdapter[T],
        examples: Mapping[str, Any],
        *,
        required: bool = True,
        hidden: Collection[str] = (),
    ) -> None:
        self.reader = Reader(adapter, hidden=hidden)
        self._required = required
        schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
        for part in (schema, *schema.get("$defs", {}).values()):
            for name in hidden:
                part.get("properties", {}).pop(name, None)
        shown = {name: {"value": value} for name, value in examples.items()}
        content = {"application/json": {"schema": schema, "examples": shown}}
        self.openapi: dict[str, Any] = {"requestBody": {"required": required, "content": content}}

    async def __call__(self, request: Request) -> T | None:
        """The content of the body. Raises ProblemError."""
        body = await raw_body(request)
        if not self._required and body.strip() in (b"", b"null"):
            return None
        try:
            content, ignored = await self.read(body)
        except ProblemError as problem:
            _name_parameters(problem, request.scope)
            raise
        if ignored:
            note_ignored(request.scope, ignored)
        return content

    async def read(self, body: bytes) -> Read[T]:
        """The content of these bytes, and the fields in it that are ignored. Raises ProblemError."""
        return await read_json(self.reader, body)


def _name_parameters(problem: ProblemError, scope: Scope) -> None:
    """Say of each unknown field that it is a parameter of the query, if it is."""
    for error in problem.errors:
        if error["code"] == UNKNOWN_FIELD:
            known = query_parameters(scope["route"].dependant).get(folded_name(error["pointer"].removeprefix("/")))
            if known:
                error["message"] = f"Send it in the query, not in the body: ?{known.name}="


async def raw_body(request: Request) -> bytes:
    """The bytes of the body. Raises ProblemError if the media type isn't JSON (none is accepted, too), or if the body
    is compressed or too large.

    Sets `request.state.body_digest`, by which a command recognises other content under its key.
    """
    check_media_type(request.headers.get("content-type"))
    body = await _content(request)
    request.state.body_digest = sha256(body).digest()
    return body


def has_body(scope: Scope) -> bool:
    """True if the headers of a request announce a body, which may be empty."""
    return any(name in _ANNOUNCEMENTS for name, _ in scope["headers"])


async def check_no_body(request: Request) -> None:
    """Raise ProblemError if a request that takes no body has one with content of its own. An empty body has none,
    whatever its media type, nor does JSON whose values are all in the path or the query."""
    content = await _content(request)
    if not content.strip():
        return
    known = {*request.path_params.values(), *(value for _, value in request.query_params.multi_items())}
    found = _values(content) if len(content) <= LARGE else await JSON_THREAD.run(_values, content)
    if not found <= known:
        raise invalid_at("", "unexpected-body", _UNEXPECTED)


def _values(content: bytes) -> set[str]:
    """The scalar values in JSON as texts, without null. Content that isn't JSON or has too many parts is one value."""
    if has_too_many_parts(content):
        return {content.decode(errors="replace")}
    try:
        pending = [orjson.loads(content)]
    except orjson.JSONDecodeError:
        return {content.decode(errors="replace")}
    found = set()
    while pending:
        match pending.pop():
            case dict() as value:
                pending += value.values()
            case list() as value:
                pending += value
            case value if value is not None:
                found.add(str(value))
    return found


async def _content(request: Request) -> bytes:
    """The bytes of the body. Raises ProblemError if it is too large, or cut off."""
    services: Services = request.app.state.services
    most = services.limits.max_body_bytes
    detail = f"A body may have at most {most} bytes. Send several smaller requests."
    too_large = ProblemError(ProblemKind.TOO_LARGE, detail)
    cut_off = ProblemError(ProblemKind.MALFORMED_JSON, "The connection ended before the body did.")
    return b"".join([part async for part in body_parts(request, most, too_large=too_large, cut_off=cut_off)])


def check_media_type(content_type: str | None) -> None:
    """Raise ProblemError unless the media type is missing, application/json or another +json type, in UTF-8."""
    if content_type in (None, "", "application/json"):
        return
    media_type, options = parse_options_header(content_type)
    if media_type != b"application/json" and not (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    ):
        raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, "Send the body as application/json.")
    if options.get(b"charset", b"utf-8").decode(errors="replace").lower() not in _CHARSETS:
        raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, "Send the body in UTF-8.")


def parse_json(adapter: TypeAdapter[T], body: bytes) -> T:
    """The content of a body. Raises ProblemError as `read_json` does."""
    reader: Reader[T] = reader_of(adapter)
    with _problems(body):
        return reader.read(body).content


async def read_json(reader: Reader[T], body: bytes) -> Read[T]:
    """The content of a body. Raises ProblemError: 400 for malformed JSON, 422 for valid JSON with other content.

    A large body that needs the reader's slow path takes it in a thread.
    """
    with _problems(body):
        if len(body) <= LARGE:
            return reader.read(body)
        found = reader.read_quickly(body)
        return await JSON_THREAD.run(reader.read_slowly, body) if found is None else found


@contextmanager
def _problems(body: bytes) -> Iterator[None]:
    """Raise the problem for a body that is refused in this block."""
    try:
        yield
    except InvalidContentError as error:
        if error.is_malformed:
            message = error.errors[0].message if body else "The body is empty."
            raise ProblemError(ProblemKind.MALFORMED_JSON, message) from None
        raise invalid([item_error(each) for each in error.errors[:MAX_ERRORS]], error.total) from None
