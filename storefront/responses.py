"""Responses of the storefront that caches may keep, with validators and gzip (RFC 9110)."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.web.responses import matches_etag
from storefront.answers import Answer, Answers, Load

_CACHE: Final = b"public, max-age=60, stale-while-revalidate=600"
_VARY: Final = b"Origin, Accept-Encoding"


class CachedResponse(Response):
    """A cacheable answer, or 304 if the client has it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__()

    def status_of(self, scope: Scope) -> int:
        """The status for this request: 200 or 304."""
        return 304 if matches_etag(_header(scope, b"if-none-match"), self.answer.digest) else 200

    def size_for(self, scope: Scope) -> int:
        """The bytes of the body that this request gets."""
        return len(self._sent_body(scope, self._form_for(scope)[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, gzipped if the client accepts that."""
        answer = self.answer
        body, suffix, encoding = self._form_for(scope)
        headers = [
            (b"etag", f'"{answer.digest}{suffix}"'.encode()),
            (b"cache-control", _CACHE),
            (b"vary", _VARY),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-resource-policy", b"cross-origin"),
        ]
        origin = _header(scope, b"origin")
        if origin and origin in answer.origins:
            headers.append((b"access-control-allow-origin", origin.encode("latin-1")))
        status = self.status_of(scope)
        if status == 200:
            headers += [
                (b"content-type", answer.media_type.encode()),
                (b"content-length", str(len(body)).encode()),
                *encoding,
            ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": self._sent_body(scope, body)})

    def _form_for(self, scope: Scope) -> tuple[bytes, str, list[tuple[bytes, bytes]]]:
        """The body in the encoding for this request, with the suffix of its tag and the header for it."""
        answer = self.answer
        if answer.compressed is not None and accepts_gzip(_header(scope, b"accept-encoding")):
            return answer.compressed, "-gzip", [(b"content-encoding", b"gzip")]
        return answer.body, "", []

    def _sent_body(self, scope: Scope, body: bytes) -> bytes:
        return body if scope["method"] != "HEAD" and self.status_of(scope) == 200 else b""


async def cached(request: Request, load: Load) -> CachedResponse:
    """The response to this request: from the cache, else by `load`. Raises what that raises."""
    answers: Answers = request.app.state.storefront_answers
    return CachedResponse(await answers.of(request_target(request.scope), load))


def request_target(scope: Scope) -> bytes:
    """The path and the query as they were sent: the cache key of an answer."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def accepts_gzip(accept_encoding: str) -> bool:
    """True if `Accept-Encoding` names gzip, with a weight other than 0: RFC 9110, section 12.5.3."""
    for part in accept_encoding.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        if name == "gzip":
            return not any(_is_zero(each) for each in parameters)
    return False


def _is_zero(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and weight.strip().rstrip("0").rstrip(".") in ("", "0")


def _header(scope: Scope, wanted: bytes) -> str:
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return ""
