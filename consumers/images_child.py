"""Rebuild one image from its pixels, in a process of its own: file on standard input, answer on standard output.

It runs apart from the service (`python -I`), because decoders of images are where hostile files do their harm: with
limits of the system on memory and time, without the environment, and of ours it imports nothing but the module that
recognises our own files. It writes BEGUN once it is ready for the file. The answer is a line of JSON, {"refused": code}
or {"width", "height", "sizes"}, then the bytes of each size.
"""

import json
import resource
import sys
import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageOps

from consumers.images_recognised import is_as_written

BEGUN: Final = b"begun\n"
"""Whatever ends the process before this is no fault of the file."""

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


class RefusedError(Exception):
    """No image is made of this file; the text is the code."""


def main(memory: int, seconds: int, pixels: int, sizes: Sequence[int], *, heic: bool, keeps_ours: bool) -> None:
    """Answer for the file on standard input. `memory`: bytes; `seconds`: of computing; `pixels`: the most there may be.

    `sizes`: of the longest sides, the largest first. `keeps_ours`: a file of ours is its own largest size, as another
    round would only make it worse.
    """
    limit(memory, seconds)
    sys.stdout.buffer.write(BEGUN)
    sys.stdout.buffer.flush()
    head: dict[str, Any]
    made: list[bytes] = []
    try:
        raw = sys.stdin.buffer.read()
        size, made = rebuilt(raw, pixels, sizes, heic=heic)
        if keeps_ours and max(size) <= sizes[0] and _is_ours(raw, size):
            made[0] = raw
        head = {"width": size[0], "height": size[1], "sizes": [len(each) for each in made]}
    except RefusedError as refused:
        head = {"refused": str(refused)}
    except MemoryError:
        head = {"refused": TOO_COSTLY}
    sys.stdout.buffer.write(json.dumps({**head, "peak": peak()}).encode() + b"\n" + b"".join(made))
    sys.stdout.buffer.flush()


def limit(memory: int, seconds: int) -> None:
    """Bound this process: its memory and its time; it writes no file and dumps no core."""
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def rebuilt(raw: bytes, pixels: int, sizes: Sequence[int], *, heic: bool) -> tuple[tuple[int, int], list[bytes]]:
    """Width and height of the image, upright, and a JPEG of it for each size. Raises RefusedError."""
    Image.MAX_IMAGE_PIXELS = pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(BytesIO(raw), formats=_formats(heic=heic))
            width, height = opened.size
            orientation = opened.getexif().get(_ORIENTATION, 1)
            image = _decoded(opened, pixels, sizes[0])
    except (RefusedError, MemoryError):
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise RefusedError(TOO_LARGE) from None
    except Exception:
        # Decoders raise whatever they like.
        raise RefusedError(UNREADABLE) from None
    plain = _upright(_opaque(image), orientation)
    made = []
    for size in sizes:
        plain.thumbnail((size, size), Image.Resampling.LANCZOS)
        made.append(_file(plain))
    return ((height, width) if orientation in _ON_ITS_SIDE else (width, height)), made


def _is_ours(raw: bytes, size: tuple[int, int]) -> bool:
    return is_as_written(raw, _file(Image.new("RGB", size)), size)


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


def _decoded(image: Image.Image, pixels: int, size: int) -> Image.Image:
    """The image, no larger than is wanted. Raises RefusedError before it is decoded where that is too much."""
    if image.width * image.height > pixels:
        raise RefusedError(TOO_LARGE)
    if image.format in ("PNG", "WEBP") and getattr(image, "is_animated", False):
        raise RefusedError(ANIMATED)
    if image.format == "WEBP":
        image = _frame_of_webp(image)
    # A JPEG is read at a fraction of its size, never below what is wanted.
    image.draft("RGB", (size, size))
    image = _blendable(image)
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    image.load()
    return image


def _blendable(image: Image.Image) -> Image.Image:
    """The image in a mode whose pixels can be blended: Pillow makes one of a palette, or of black and white, smaller by
    leaving pixels out, and cuts off 16 bits instead of scaling them."""
    match image.mode:
        case "1":
            return image.convert("L")
        case "P":
            return image.convert("RGBA" if "transparency" in image.info else "RGB")
        case "I" | "I;16":
            return image.point(lambda value: value * _TO_8_BITS).convert("L")
    return image


def _frame_of_webp(image: Any) -> Image.Image:
    """The only frame of a WebP image, on the memory into which it was decoded.

    Pillow copies it once more while its decoder holds two of it: 440 MB for 25 megapixels, instead of 340.
    """
    size, mode = image.size, image.mode
    frame = image._decoder.get_next()
    if frame is None:
        raise RefusedError(UNREADABLE)
    image._decoder = None
    return Image.frombuffer(mode, size, frame[0], "raw", "RGBX" if mode == "RGB" else mode, 0, 1)


def _opaque(image: Image.Image) -> Image.Image:
    """The pixels alone, on white, in a new image that has nothing else."""
    clean = Image.new("RGB", image.size, _WHITE)
    if image.mode in _TRANSPARENT:
        shown = image.convert("RGBA")
        clean.paste(shown, mask=shown.getchannel("A"))
    else:
        clean.paste(image.convert("RGB"))
    return clean


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    """The image turned and mirrored as its camera said."""
    image.getexif()[_ORIENTATION] = orientation
    turned = ImageOps.exif_transpose(image)
    clean = Image.new("RGB", turned.size)
    clean.paste(turned)
    return clean


def peak() -> int:
    """The most memory that this process has held, in KiB; its own, unlike `ru_maxrss`, which a parent hands down."""
    with Path("/proc/self/status").open() as status:
        return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)


if __name__ == "__main__":
    _memory, _seconds, _pixels, _heic, _kept, *_sizes = sys.argv[1:]
    _bounds = int(_memory), int(_seconds), int(_pixels)
    main(*_bounds, [int(each) for each in _sizes], heic=_heic == "heic", keeps_ours=_kept == "ours")
