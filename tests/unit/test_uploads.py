"""Uploads: forms that can't be read, and what a key stands for."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.requests import Request

from api.web.problems import ProblemError, ProblemKind
from api.web.uploads import FORM, Upload


async def test_an_overlong_boundary_is_no_form() -> None:
    named = f"{FORM}; boundary={'b' * 257}".encode()
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", named)]})
    with pytest.raises(ProblemError) as refused:
        await Upload()(request)
    assert refused.value.kind is ProblemKind.MALFORMED_BODY


async def _digest(content_type: str, body: bytes) -> bytes:
    """The digest by which a command tells an upload from another one with its key."""
    parts = [body[:100], body[100:]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", content_type.encode())]}
    request = Request(scope, receive)
    await Upload()(request)
    digest: bytes = request.state.body_digest
    return digest


def _form(file: bytes, name: str = "a.png") -> tuple[str, bytes]:
    """A form as a client sends it, with a boundary of its own."""
    request = httpx.Request("POST", "http://plaudit.test", files={"file": (name, file)})
    return request.headers["content-type"], request.read()


async def test_a_form_that_is_sent_again_is_the_same_upload() -> None:
    one, again = _form(b"x" * 500), _form(b"x" * 500, "b.png")
    assert one[0] != again[0]
    digests = {await _digest(*form) for form in (one, again, ("image/png", b"x" * 500))}
    assert len(digests) == 1
    assert await _digest(*_form(b"x" * 501)) not in digests
