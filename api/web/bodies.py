"""Reading JSON bodies: media type, size, syntax, content, in this order."""

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import TypeAdapter
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request

from api.services import Services
from api.web.ignored import note_ignored
from api.web.problems import ProblemError, ProblemKind, invalid
from messaging.reading import InvalidContentError, Read, Reader, reader_of

T = TypeVar("T")

_PLAIN: Final = "identity"
_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
_UNEXPECTED: Final = "This takes no body: what it is about is said by the path and the query. Nothing was accepted."


class JsonBody(Generic[T]):
    """A dependency that reads the body and checks it; it ends the request with a problem where it can't be used.

    FastAPI would read a body before it asks for permission. `openapi` is its part of the document, with these examples
    by name. Hidden properties aren't for HTTP clients. The answer names the fields that nothing is done with. A body
    that isn't required may be empty or null.
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
        if self.is_left_out(body):
            return None
        content, ignored = self.read(body)
        if ignored:
            note_ignored(request.scope, ignored)
        return content

    def read(self, body: bytes) -> Read[T]:
        """The content of these bytes, and the fields in it that nothing is done with. Raises ProblemError."""
        return read_json(self.reader, body)

    def is_left_out(self, body: bytes) -> bool:
        """True for a body that says nothing, where none is required: null is as good as missing."""
        return not self._required and body.strip() in (b"", b"null")


async def raw_body(request: Request) -> bytes:
    """The bytes of the body. Raises ProblemError: not JSON by its media type (a missing one will do), or too large.

    `request.state.body_digest` is the digest of them then, by which a command tells another one with its key.
    """
    check_media_type(request.headers.get("content-type"))
    if request.headers.get("content-encoding", _PLAIN).strip().lower() not in ("", _PLAIN):
        plain = {"Accept-Encoding": _PLAIN}
        raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, "Send the body uncompressed.", headers=plain)
    body = await _content(request)
    request.state.body_digest = sha256(body).digest()
    return body


async def check_no_body(request: Request) -> None:
    """Raises ProblemError when a request whose body nobody reads has one that says something. An empty one says
    nothing, whatever its media type, nor does JSON that has only what the path or the query have, too."""
    content = await _content(request)
    said = {*request.path_params.values(), *(value for _, value in request.query_params.multi_items())}
    if content.strip() and not _values(content) <= said:
        raise invalid([{"pointer": "", "code": "unexpected-body", "message": _UNEXPECTED}])


def _values(content: bytes) -> set[str]:
    """The values in JSON, null left out; what is none stands for itself."""
    try:
        left = [orjson.loads(content)]
    except orjson.JSONDecodeError:
        return {content.decode(errors="replace")}
    found = set()
    while left:
        match left.pop():
            case dict() as told:
                left += told.values()
            case list() as told:
                left += told
            case told if told is not None:
                found.add(str(told))
    return found


async def _content(request: Request) -> bytes:
    """The bytes of the body. Raises ProblemError: too large, or cut off."""
    services: Services = request.app.state.services
    limit = services.limits.max_body_bytes
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20 and int(announced) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
    except ClientDisconnect as gone:
        raise ProblemError(ProblemKind.MALFORMED_JSON, "The connection ended before the body did.") from gone
    return b"".join(chunks)


def check_media_type(content_type: str | None) -> None:
    """Raises ProblemError unless it is application/json, another +json type, or missing, and in UTF-8."""
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
    return read_json(reader, body).content


def read_json(reader: Reader[T], body: bytes) -> Read[T]:
    """The content of a body. Raises ProblemError: malformed (400), or valid JSON with other content (422)."""
    try:
        return reader.read(body)
    except InvalidContentError as error:
        if error.is_malformed:
            message = error.errors[0].message if body else "The body is empty."
            raise ProblemError(ProblemKind.MALFORMED_JSON, message) from None
        raise invalid([{"pointer": p, "code": c, "message": m} for p, c, m in error.errors]) from None


def _too_large(limit: int) -> ProblemError:
    return ProblemError(ProblemKind.TOO_LARGE, f"A body may have {limit} bytes. Send several smaller requests.")
