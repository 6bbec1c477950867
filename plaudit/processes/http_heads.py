"""Refusal of requests that can't be served, or whose heads two servers could parse differently (RFC 9112)."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import orjson
from httptools import HttpParserCallbackError, HttpParserError, HttpParserInvalidURLError

from api.web.encoded_slashes import path_in_addresses

Refusal = tuple[HTTPStatus, str]
"""A status, and advice for the client."""

NOT_HTTP: Final = "This is not valid HTTP/1.1."

_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?")

_ABSOLUTE: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?]*)")
_PATH: Final = re.compile(rb"/[^?#]*")
_ONCE: Final = (b"content-type", b"content-encoding", b"authorization", b"x-api-key")
"""Headers with one value, of which two servers could take different ones."""

MOST_CONTENT_TYPE_BYTES: Final = 1_024
"""Its parser takes microseconds for each parameter, also without a body. A boundary has at most 70 characters."""


def answer_of(status: HTTPStatus, detail: str, instance: str) -> bytes:
    """A complete response with a problem (RFC 9457); the connection closes after it."""
    body = orjson.dumps(
        {"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail, "instance": instance}
    )
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def instance_of(target: bytes) -> str:
    """The path of a request's target as the problems of the API name it; `/` if there is none."""
    absolute = _ABSOLUTE.match(target)
    raw_path = _PATH.match(target, absolute.end() if absolute else 0)
    if not raw_path:
        return "/"
    return path_in_addresses({"path": unquote(raw_path[0].decode("latin-1")), "raw_path": raw_path[0]})


def syntax_refusal_of(error: HttpParserError) -> Refusal:
    """The refusal of what the parser can't read, with its reason."""
    if isinstance(error, HttpParserInvalidURLError):
        detail = "The address has a character that must be percent-encoded, as by encodeURIComponent."
    elif isinstance(error, HttpParserCallbackError):
        detail = f"{NOT_HTTP} The address can't be read: send a path, such as /docs."
    else:
        detail = f"{NOT_HTTP} {error}."
    return HTTPStatus.BAD_REQUEST, detail


def refusal_of(method: bytes, target: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    """The reason to refuse a request, None without one. Header names are in lower case."""
    if method == b"CONNECT":
        return HTTPStatus.NOT_IMPLEMENTED, "This is not a proxy."
    if version not in ("1.0", "1.1"):
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Speak HTTP/1.1."
    return _target_refusal_of(target, version, headers) or _framing_refusal_of(version, headers)


def _target_refusal_of(target: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        return HTTPStatus.BAD_REQUEST, "Send the header Host exactly once."
    if hosts and not _HOST.fullmatch(hosts[0]):
        return HTTPStatus.BAD_REQUEST, "The header Host must be a name or an address, with an optional port."
    if b"#" in target:
        return HTTPStatus.BAD_REQUEST, "The address must not have a fragment: encode a # of a path or query as %23."
    # An absolute address must not bypass the checks of the header Host (RFC 9112, 3.2.2).
    absolute = _ABSOLUTE.match(target)
    if absolute and [absolute[1].lower()] != [host.lower() for host in hosts]:
        return HTTPStatus.BAD_REQUEST, "With an absolute address, send the header Host with the same host."
    return None


def _framing_refusal_of(version: str, headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if version == "1.0" and codings:
        return HTTPStatus.BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or HTTP/1.1."
    if codings and codings != [b"chunked"]:
        return HTTPStatus.NOT_IMPLEMENTED, "Only the transfer coding chunked is supported: send it alone, once."
    for name in _ONCE:
        if sum(sent == name for sent, _ in headers) > 1:
            return HTTPStatus.BAD_REQUEST, f"Send the header {name.decode().title()} once."
    if any(name == b"content-type" and len(value) > MOST_CONTENT_TYPE_BYTES for name, value in headers):
        detail = f"The header Content-Type may have at most {MOST_CONTENT_TYPE_BYTES:,} bytes."
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, detail
    return None
