"""Uploads: malformed forms, and the digest that identifies an upload."""

from typing import Any

import httpx
import pytest
from starlette.requests import Request

from api.web.problems import ProblemError, ProblemKind
from api.web.uploads import FORM, Upload


async def test_overlong_boundary_is_malformed() -> None:
    named = f"{FORM}; boundary={'b' * 257}".encode()
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", named)]})
    with pytest.raises(ProblemError) as refused:
        await Upload()(request)
    assert refused.value.kind is ProblemKind.MALFORMED_BODY


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"--b\r\n\r\nhalf of a file", "form is incomplete"),
        (b"--b\r\n\r\na file\r\n--b", "form is incomplete"),
        (b"--b\r\n\r\na file\r\n--b-", "form is incomplete"),
        (b"--b\r\nContent-Type: image/png", "form is incomplete"),
        (b"--b", "no file"),
        (b"--b--", "no file"),
        (b"--b--\r\n", "no file"),
        (b"", "no file"),
    ],
)
async def test_form_without_end_or_file_is_malformed(body: bytes, reason: str) -> None:
    with pytest.raises(ProblemError, match=reason) as refused:
        await _digest(f"{FORM}; boundary=b", body)
    assert refused.value.kind is ProblemKind.MALFORMED_BODY


@pytest.mark.parametrize(
    ("content_type", "body"), [("image/png", b""), (f"{FORM}; boundary=b", b"--b\r\n\r\n\r\n--b--")]
)
async def test_empty_file_is_refused_as_unreadable(content_type: str, body: bytes) -> None:
    with pytest.raises(ProblemError) as refused:
        await _digest(content_type, body)
    assert [(each["code"], each["message"]) for each in refused.value.errors] == [
        ("image-unreadable", "The file is empty: it has 0 bytes")
    ]
    assert refused.value.kind.status == 422


@pytest.mark.parametrize("end", [b"--b--", b"--b--\r\n", b"--b--\r\nepilogue"])
async def test_form_ends_with_its_boundary(end: bytes) -> None:
    assert await _digest(f"{FORM}; boundary=b", b"--b\r\n\r\na file\r\n" + end) == await _digest("image/png", b"a file")


@pytest.mark.parametrize("content_type", ["image/png", f"{FORM}; boundary=b"])
async def test_compressed_upload_is_refused(content_type: str) -> None:
    with pytest.raises(ProblemError, match="uncompressed") as refused:
        await _digest(content_type, b"--b\r\n\r\na file\r\n--b--", (b"content-encoding", b"gzip"))
    assert refused.value.kind is ProblemKind.UNSUPPORTED_MEDIA_TYPE


async def _digest(content_type: str, body: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    """The digest that distinguishes uploads with the same idempotency key."""
    parts = [body[:100], body[100:]]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    named = [(b"content-type", content_type.encode()), *headers]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": named}, receive)
    await Upload()(request)
    digest: bytes = request.state.body_digest
    return digest


def _form(file: bytes, name: str = "a.png") -> tuple[str, bytes]:
    """A form as a client sends it, with a new boundary."""
    request = httpx.Request("POST", "http://plaudit.test", files={"file": (name, file)})
    return request.headers["content-type"], request.read()


async def test_repeated_form_is_the_same_upload() -> None:
    one, again = _form(b"x" * 500), _form(b"x" * 500, "b.png")
    assert one[0] != again[0]
    digests = {await _digest(*form) for form in (one, again, ("image/png", b"x" * 500))}
    assert len(digests) == 1
    assert await _digest(*_form(b"x" * 501)) not in digests
