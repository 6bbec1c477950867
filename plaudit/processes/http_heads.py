"""Refusal of requests that can't be served, or whose heads two servers could parse differently (RFC 9112)."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import orjson

Refusal = tuple[HTTPStatus, str]
"""A status, and advice for the client."""

_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]*)?")


def answer_of(status: HTTPStatus, detail: str) -> bytes:
    """A complete response with a problem (RFC 9457); the connection closes after it."""
    body = orjson.dumps({"type": "about:blank", "title": status.phrase, "status": int(status), "detail": detail})
    head = (
        f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: application/problem+json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


def refusal_of(method: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    """The reason to refuse a request, None without one. Header names are in lower case."""
    if method == b"CONNECT":
        return HTTPStatus.NOT_IMPLEMENTED, "This is not a proxy."
    if version not in ("1.0", "1.1"):
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "Speak HTTP/1.1."
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        return HTTPStatus.BAD_REQUEST, "Send the header Host exactly once."
    if hosts and not _HOST.fullmatch(hosts[0]):
        return HTTPStatus.BAD_REQUEST, "The header Host must be a name or an address, with an optional port."
    if version == "1.0" and any(name == b"transfer-encoding" for name, _ in headers):
        return HTTPStatus.BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding. Send Content-Length, or HTTP/1.1."
    return None
