"""Files made to attack image decoders, or with more content than their pixels."""

import random
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from .images import picture

MARKERS: Final = (b"GPS-48.8583", b"XMP-secret", b"IPTC-secret", b"comment-secret", b"<script>", b"PK\x03\x04", b"%PDF")
"""Byte strings that no rebuilt image may contain."""

EXIF: Final = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x0e\x01\x02\0\x0c\0\0\0\x1a\0\0\0\0\0\0\0GPS-48.8583\0"
XMP: Final = b'<?xpacket begin=""?><x:xmpmeta xmlns:x="adobe:ns:meta/">XMP-secret</x:xmpmeta>'


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, data: bytes, *more: bytes, colour: int = 2) -> bytes:
    """A PNG file whose header states this size, with this pixel data and `more` chunks before it."""
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", head), *more, chunk(b"IDAT", data), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def segment(marker: int, data: bytes) -> bytes:
    """A segment of a JPEG file."""
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def with_segments(jpeg: bytes, *segments: bytes) -> bytes:
    """A JPEG file with these segments after its start marker."""
    return jpeg[:2] + b"".join(segments) + jpeg[2:]


def animation(kind: str, frames: int = 3) -> bytes:
    """An animated image."""
    pictures = [Image.new("RGB", (20, 20), colour) for colour in ("red", "green", "blue")] * frames
    out = BytesIO()
    pictures[0].save(out, kind, save_all=True, append_images=pictures[1:frames], duration=50)
    return out.getvalue()


def jpeg_of_size(width: int, height: int) -> bytes:
    """A small JPEG file whose header states this size."""
    small = picture((16, 16), "JPEG")
    at = small.index(b"\xff\xc0") + 5
    return small[:at] + struct.pack(">HH", height, width) + small[at + 4 :]


def files_with_metadata() -> Iterator[tuple[str, bytes]]:
    """Valid images with metadata, or with another file format in them."""
    jpeg, info = picture((60, 40), "JPEG"), PngInfo()
    info.add_text("Comment", "comment-secret")
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    iptc = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x10\x1c\x02x\0\x0bIPTC-secret"
    yield "exif.jpg", with_segments(jpeg, segment(0xE1, EXIF))
    yield "xmp.jpg", with_segments(jpeg, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP))
    yield "iptc.jpg", with_segments(jpeg, segment(0xED, iptc))
    yield "comment.jpg", with_segments(jpeg, segment(0xFE, b"comment-secret"))
    yield "icc.jpg", with_segments(jpeg, segment(0xE2, b"ICC_PROFILE\0\x01\x01" + b"comment-secret" * 20))
    yield "text.png", picture((60, 40), "PNG", pnginfo=info)
    yield "exif.png", picture((60, 40), "PNG", exif=EXIF)
    yield "all.webp", picture((60, 40), "WEBP", exif=EXIF, xmp=XMP, icc_profile=b"comment-secret" * 20)
    for name, tail in (("zip", b"PK\x03\x04 archive"), ("html", b"<script>alert(1)</script>"), ("pdf", b"%PDF-1.7")):
        yield f"{name}.jpg", jpeg + tail
        yield f"{name}.png", picture() + tail
        yield f"{name}-inside.jpg", with_segments(jpeg, segment(0xFE, tail))
        yield f"{name}-inside.png", png(1, 1, zlib.compress(b"\0abc"), chunk(b"tEXt", b"a\0" + tail))


def bombs() -> Iterator[tuple[str, bytes]]:
    """Small files whose decoding would take much memory or time."""
    for width, height in ((30_000, 30_000), (65_500, 65_500), (2**31 - 1, 2**31 - 1), (1, 2**31 - 1), (5_001, 5_000)):
        yield f"{width}x{height}.png", png(width, height, zlib.compress(bytes(1_000_000), 9))
        yield f"{width}x{height}.jpg", jpeg_of_size(width & 0xFFFF, height & 0xFFFF)
    yield (
        "plain-text.png",
        png(1, 1, zlib.compress(b"\0abc"), chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(200_000_000), 9))),
    )
    yield (
        "zipped-icc.png",
        png(1, 1, zlib.compress(b"\0abc"), chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(200_000_000), 9))),
    )
    yield "pixels.png", png(10, 10, zlib.compress(bytes(200_000_000), 9))
    yield "large.png", picture((5_000, 5_000), "PNG")
    yield "large.webp", picture((5_000, 5_000), "WEBP", lossless=True, method=0)
    yield "large.jpg", picture((5_000, 5_000), "JPEG", progressive=True)
    yield "frames.webp", animation("WEBP", 9)
    yield "frames.png", animation("PNG", 9)


def foreign() -> Iterator[tuple[str, bytes]]:
    """Files of other formats, also with the beginning of an image file."""
    beginnings = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\x10\0\0\0WEBP")
    for kind in ("GIF", "BMP", "TIFF", "ICO", "PPM", "TGA", "PDF", "EPS", "PCX", "SGI"):
        yield kind, picture((10, 10), kind)
        for beginning in beginnings:
            yield f"{kind} behind {beginning[:4]!r}", beginning + picture((10, 10), kind)
    for text in (b"<svg onload='alert(1)'/>", b"<script>", b"%!PS", b"push graphic-context\nviewbox 0 0 1 1\n", b"MZ"):
        yield repr(text), text
        for beginning in beginnings:
            yield f"{text!r} behind {beginning[:4]!r}", beginning + text


def broken(count: int) -> Iterator[tuple[str, bytes]]:
    """Truncated images, and images with changed bytes."""
    draw = random.Random(32)
    samples = [picture((64, 64), kind) for kind in ("JPEG", "PNG", "WEBP")]
    for number in range(count):
        sample = bytearray(samples[number % 3])
        if number % 2:
            yield f"cut {number}", bytes(sample[: draw.randrange(12, len(sample))])
        else:
            for _ in range(draw.randrange(1, 20)):
                sample[draw.randrange(12, len(sample))] = draw.randrange(256)
            yield f"changed {number}", bytes(sample)


def hostile_files() -> list[tuple[str, bytes]]:
    """All of these files, at least 200."""
    found = [*files_with_metadata(), *bombs(), *foreign()]
    return [*found, *broken(max(60, 200 - len(found)))]
