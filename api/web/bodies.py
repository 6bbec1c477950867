"""Reading JSON bodies: media type, size, syntax, content, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect, Request

from api.services import Services
from api.web.problems import ItemError, ProblemError, ProblemKind, invalid, item_error

T = TypeVar("T")

_NOT_JSON: Final = (b"NaN", b"Infinity")


class JsonBody(Generic[T]):
    """A dependency that reads the body and checks it; it ends the request with a problem where it can't be used.

    FastAPI would read a body before it asks for permission. `openapi` is its part of the document, with these examples
    by name. A hidden property isn't for HTTP clients.
    """

    def __init__(
        self, adapter: TypeAdapter[T], examples: Mapping[str, Any], *, required: bool = True, hidden: str | None = None
    ) -> None:
        self._adapter = adapter
        schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
        for part in (schema, *schema.get("$defs", {}).values()):
            part.get("properties", {}).pop(hidden, None)
        shown = {name: {"value": value} for name, value in examples.items()}
        content = {"application/json": {"schema": schema, "examples": shown}}
        self.openapi = {"requestBody": {"required": required, "content": content}}

    async def __call__(self, request: Request) -> T:
        """The content of the body. Raises ProblemError."""
        return parse_json(self._adapter, await raw_body(request))


async def raw_body(request: Request) -> bytes:
    """The bytes of the body. Raises ProblemError: not JSON by its media type (a missing one will do), or too large.

    `request.state.body_digest` is the digest of them then, by which a command tells another one with its key.
    """
    check_media_type(request.headers.get("content-type"))
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
    body = b"".join(chunks)
    request.state.body_digest = sha256(body).digest()
    return body


def check_media_type(content_type: str | None) -> None:
    """Raises ProblemError unless it is application/json, another +json type, or missing."""
    if not content_type:
        return
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, "Send the body as application/json.")


def parse_json(adapter: TypeAdapter[T], body: bytes) -> T:
    """The content of a body. Raises ProblemError: malformed (400), or valid JSON with other content (422)."""
    try:
        # Pydantic reads NaN and Infinity, which aren't JSON; orjson doesn't.
        if any(word in body for word in _NOT_JSON):
            orjson.loads(body)
        return adapter.validate_json(body)
    except orjson.JSONDecodeError as error:
        raise ProblemError(ProblemKind.MALFORMED_JSON, f"Invalid JSON: {error}") from None
    except ValidationError as error:
        errors = _errors_of(error)
    if errors[0]["code"] == "json-invalid":
        raise ProblemError(ProblemKind.MALFORMED_JSON, errors[0]["message"] if body else "The body is empty.")
    raise invalid(errors)


def _errors_of(error: ValidationError) -> list[ItemError]:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [item_error(detail) for detail in details]


def _too_large(limit: int) -> ProblemError:
    return ProblemError(ProblemKind.TOO_LARGE, f"A body may have {limit} bytes. Send several smaller requests.")
