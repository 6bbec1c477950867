"""Reads one uploaded file: the body itself, or the only file of a form (multipart/form-data)."""

from collections.abc import Callable
from hashlib import blake2b
from importlib.util import find_spec
from typing import Final

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from api.web.body_parts import body_parts
from api.web.problems import ProblemError, ProblemKind, invalid_at
from domain.images import MAX_UPLOAD_BYTES, ImageFormat

FORM: Final = "multipart/form-data"
FRAMING_BYTES: Final = 16 * 1024
"""Maximum bytes of a form besides its file."""

_TAKES_HEIC: Final = find_spec("pillow_heif") is not None
ACCEPTED_FORMATS: Final = [each for each in ImageFormat if each is not ImageFormat.HEIC or _TAKES_HEIC]

MAX_BODY_BYTES: Final = MAX_UPLOAD_BYTES + FRAMING_BYTES
_RAW: Final = frozenset({*map(str, ImageFormat), "image/heif", "application/octet-stream"})
_DIGEST_BYTES: Final = 16

_BODY: Final = {"type": "string", "format": "binary"}


class Upload:
    """A dependency that reads the file of a request, at most MAX_UPLOAD_BYTES of it, and nothing beyond.

    Sets `request.state.body_digest` to the digest of the file, by which a command recognises other content under its
    key: a form has another boundary each time that it is sent.
    """

    openapi: Final = {
        "requestBody": {
            "required": True,
            "content": {
                FORM: {"schema": {"type": "object", "required": ["file"], "properties": {"file": _BODY}}},
                **{str(each): {"schema": _BODY} for each in ImageFormat},
            },
        }
    }

    async def __call__(self, request: Request) -> bytes:
        """The file. Raises ProblemError."""
        media_type, options = parse_options_header(request.headers.get("content-type"))
        name = media_type.decode("latin-1").lower()
        content, digest = bytearray(), blake2b(digest_size=_DIGEST_BYTES)

        def write(part: bytes | memoryview) -> None:
            content.extend(part)
            digest.update(part)

        if name == FORM:
            form = _Form(options.get(b"boundary", b""), write)
            await _pass_on(request, form.write)
            form.check_end()
        elif name in _RAW:
            await _pass_on(request, write)
        else:
            raise ProblemError(
                ProblemKind.UNSUPPORTED_MEDIA_TYPE,
                f"Send the image as {', '.join(ACCEPTED_FORMATS)}, or in a form as {FORM}.",
            )
        if not content:
            raise invalid_at("", "image-unreadable", "The file is empty: it has 0 bytes")
        if len(content) > MAX_UPLOAD_BYTES:
            raise _too_large()
        request.state.body_digest = digest.digest()
        return bytes(content)


async def _pass_on(request: Request, write: Callable[[bytes], object]) -> None:
    """Pass the body on, part by part. Raises ProblemError if it is too large, cut off or malformed."""
    cut_off = _malformed("The connection ended before the body did.")
    try:
        async for part in body_parts(request, MAX_BODY_BYTES, too_large=_too_large(), cut_off=cut_off):
            write(part)
    except FormParserError as error:
        raise _unreadable(error) from None


class _Form:
    """A form whose only part is written as it arrives. Raises ProblemError if it can't be parsed, or has more parts."""

    def __init__(self, boundary: bytes, write: Callable[[memoryview], object]) -> None:
        self._write = write
        self._parts = 0
        self._has_ended = False
        if not boundary:
            raise _malformed("The Content-Type of the form has no boundary.")
        try:
            self._parser = MultipartParser(
                boundary, {"on_part_begin": self._begin, "on_part_data": self._data, "on_end": self._end}
            )
        except FormParserError as error:
            raise _unreadable(error) from None

    def write(self, data: bytes) -> None:
        """Parse the next bytes of the body."""
        self._parser.write(data)

    def check_end(self) -> None:
        """Raise ProblemError if the form has no file, or is incomplete."""
        if not self._parts:
            raise _malformed("The form has no file.")
        if not self._has_ended:
            raise _malformed("The form is incomplete: the last boundary is missing.")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > 1:
            raise _malformed("The form must contain one file and nothing else.")

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._write(memoryview(data)[start:end])

    def _end(self) -> None:
        self._has_ended = True


def _malformed(detail: str) -> ProblemError:
    return ProblemError(ProblemKind.MALFORMED_BODY, detail)


def _unreadable(error: FormParserError) -> ProblemError:
    return _malformed(f"The form can't be read: {error}"[:300])


def _too_large() -> ProblemError:
    return ProblemError(ProblemKind.TOO_LARGE, f"An image may have at most {MAX_UPLOAD_BYTES} bytes.")
