"""Rebuild one image from its pixels in a separate process: file on standard input, answer on standard output.

Hostile files attack image decoders, so the process is isolated from the service (`python -I`): it has OS limits on
memory and CPU time and an empty environment, and the only module of ours that it imports is the one that recognises
our own files. It writes BEGUN once it is ready for the file. The answer is a line of JSON, {"refused": code} or
{"width", "height", "sizes"}. The bytes of each size follow.
"""

import json
import re
import resource
import sys
import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

from PIL import Image, ImageOps

from consumers.images.recognised import is_as_written

BEGUN: Final = b"begun\n"
"""Written once the process is ready: if it ends before this, the file is not to blame."""

UNREADABLE: Final = "image-unreadable"
ANIMATED: Final = "image-animated"
TOO_LARGE: Final = "image-too-large"
TOO_COSTLY: Final = "image-too-costly"

_QUALITY: Final = 82
_WHITE: Final = (255, 255, 255)
_ORIENTATION: Final = 0x0112
_ON_ITS_SIDE: Final = (5, 6, 7, 8)
_TRANSPARENT: Final = ("RGBA", "LA", "PA", "RGBa", "La")
_TO_8_BITS: Final = 1 / 256

_MOST_SCANS: Final = 100
"""Maximum number of scans of a JPEG: encoders write about ten, and each may take as long as decoding the image once."""
_JPEG: Final = b"\xff\xd8"
_SCAN: Final = b"\xff\xda"
_END: Final = b"\xff\xd9"
_WITH_LENGTH_OR_END: Final = re.compile(rb"\xff[^\x00-\xbf\xd0-\xd8\xff]")
"""The markers of segments with a length, and the end of a picture. 0xFF 0x00 and restarts are parts of the data; other
invalid ones, which decoders skip without a length, count as such."""


class RefusedError(Exception):
    """The file is refused; the message is the code of the reason."""


def main(memory: int, seconds: int, pixels: int, sizes: Sequence[int], *, heic: bool, keeps_ours: bool) -> None:
    """Read a file from standard input, and write the answer to standard output.

    `memory`: limit in bytes. `seconds`: limit of CPU time. `pixels`: maximum of width times height. `sizes`: pixels of
    the longest side, largest first. `keeps_ours`: a file written by this service is kept as its own largest size, as
    encoding it again would only degrade it.
    """
    limit(memory, seconds)
    sys.stdout.buffer.write(BEGUN)
    sys.stdout.buffer.flush()
    head: dict[str, Any]
    made: list[bytes] = []
    try:
        raw = sys.stdin.buffer.read()
        size, made = rebuild(raw, pixels, sizes, heic=heic)
        if keeps_ours and max(size) <= sizes[0] and is_as_written(raw, _file(Image.new("RGB", size)), size):
            made[0] = raw
        head = {"width": size[0], "height": size[1], "sizes": [len(each) for each in made]}
    except RefusedError as refused:
        head = {"refused": str(refused)}
    except MemoryError:
        head = {"refused": TOO_COSTLY}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + b"".join(made))
    sys.stdout.buffer.flush()


def limit(memory: int, seconds: int) -> None:
    """Limit the process to these bytes of address space and seconds of CPU time, without file writes and core dumps.

    SIGXCPU ends it at the limit of CPU time. SIGKILL, which the system sends when it runs out of memory, follows a
    second later.
    """
    for kind, most, hard in (
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(kind, (most, hard))


def rebuild(raw: bytes, pixels: int, sizes: Sequence[int], *, heic: bool) -> tuple[tuple[int, int], list[bytes]]:
    """Width and height of the upright image, and a JPEG for each size. Raises RefusedError for an unusable file."""
    Image.MAX_IMAGE_PIXELS = pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(BytesIO(raw), formats=_formats(heic=heic))
            width, height = opened.size
            orientation = opened.getexif().get(_ORIENTATION, 1)
            if raw.startswith(_JPEG) and _scans(raw) > _MOST_SCANS:
                raise RefusedError(TOO_COSTLY)
            image = _decoded(opened, pixels, sizes[0])
    except (RefusedError, MemoryError):
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise RefusedError(TOO_LARGE) from None
    except Exception:
        # Decoders raise arbitrary exceptions.
        raise RefusedError(UNREADABLE) from None
    plain = _upright(_opaque(image), orientation)
    made = []
    for size in sizes:
        plain.thumbnail((size, size), Image.Resampling.LANCZOS)
        made.append(_file(plain))
    return ((height, width) if orientation in _ON_ITS_SIDE else (width, height)), made


def _file(image: Image.Image) -> bytes:
    out = BytesIO()
    image.save(out, "JPEG", quality=_QUALITY, optimize=True)
    return out.getvalue()


def _formats(*, heic: bool) -> list[str]:
    formats = ["JPEG", "PNG", "WEBP"]
    if heic:
        import pillow_heif

        pillow_heif.register_heif_opener(thumbnails=False)
        formats.append("HEIF")
    return formats


def _scans(jpeg: bytes) -> int:
    """The number of scans of the first picture; segments, and what follows the picture, may hold other ones."""
    count = at = 0
    while (marker := _WITH_LENGTH_OR_END.search(jpeg, at)) and marker[0] != _END:
        count += marker[0] == _SCAN
        at = marker.end() + int.from_bytes(jpeg[marker.end() : marker.end() + 2])
    return count


def _decoded(image: Image.Image, pixels: int, size: int) -> Image.Image:
    """The decoded image, scaled down to `size`. Raises RefusedError before decoding if it is animated or too large."""
    if image.width * image.height > pixels:
        raise RefusedError(TOO_LARGE)
    if image.format in ("PNG", "WEBP") and getattr(image, "is_animated", False):
        raise RefusedError(ANIMATED)
    if image.format == "WEBP":
        image = _frame_of_webp(image)
    # A JPEG is decoded at a fraction of its size, never below `size`.
    image.draft("RGB", (size, size))
    image = _blendable(image)
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    image.load()
    return image


def _blendable(image: Image.Image) -> Image.Image:
    """The image in a mode that can be resampled: Pillow shrinks palette and 1-bit images by dropping pixels, and
    truncates 16-bit values instead of scaling them."""
    match image.mode:
        case "1":
            return image.convert("L")
        case "P":
            return image.convert("RGBA" if "transparency" in image.info else "RGB")
        case "I" | "I;16":
            return image.point(lambda value: value * _TO_8_BITS).convert("L")
    return image


def _frame_of_webp(image: Any) -> Image.Image:
    """The only frame of a WebP image, in the buffer into which it was decoded. Raises RefusedError without a frame.

    Pillow would make another copy while its decoder holds two: 440 MB for 25 megapixels instead of 340 MB.
    """
    size, mode = image.size, image.mode
    frame = image._decoder.get_next()
    if frame is None:
        raise RefusedError(UNREADABLE)
    image._decoder = None
    return Image.frombuffer(mode, size, frame[0], "raw", "RGBX" if mode == "RGB" else mode, 0, 1)


def _opaque(image: Image.Image) -> Image.Image:
    """The pixels on a white background, in a new image without metadata."""
    clean = Image.new("RGB", image.size, _WHITE)
    if image.mode in _TRANSPARENT:
        shown = image.convert("RGBA")
        clean.paste(shown, mask=shown.getchannel("A"))
    else:
        clean.paste(image.convert("RGB"))
    return clean


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    """The image, rotated and mirrored by its EXIF orientation, without metadata."""
    image.getexif()[_ORIENTATION] = orientation
    turned = ImageOps.exif_transpose(image)
    clean = Image.new("RGB", turned.size)
    clean.paste(turned)
    return clean


if __name__ == "__main__":
    _memory, _seconds, _pixels, _heic, _kept, *_sizes = sys.argv[1:]
    _bounds = int(_memory), int(_seconds), int(_pixels)
    main(*_bounds, [int(each) for each in _sizes], heic=_heic == "heic", keeps_ours=_kept == "ours")
