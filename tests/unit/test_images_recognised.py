"""JPEG files that we wrote are recognised; no other file is accepted."""

import random
from collections.abc import Callable
from io import BytesIO
from typing import Final

import pytest
from PIL import Image

from consumers.images.recognised import is_as_written
from tests.support.hostile_images import segment, with_segments

SIZES: Final = [(1, 1), (7, 300), (300, 1), (17, 33), (161, 120)]


def file_of(image: Image.Image, quality: int = 82, *, optimize: bool = True, **options: object) -> bytes:
    """A file as `images_child` writes it by default, or with other options."""
    out = BytesIO()
    image.save(out, "JPEG", quality=quality, optimize=optimize, **options)
    return out.getvalue()


def pictures(size: tuple[int, int]) -> list[Image.Image]:
    """Images of this size: noise, black and white noise, gradients and plain white."""
    chance, pixels = random.Random(3), size[0] * size[1]
    return [
        Image.frombytes("RGB", size, chance.randbytes(3 * pixels)),
        Image.frombytes("L", size, bytes(chance.choice((0, 255)) for _ in range(pixels))).convert("RGB"),
        Image.frombytes("RGB", (8, 8), chance.randbytes(192)).resize(size, Image.Resampling.BICUBIC),
        Image.new("RGB", size, "white"),
    ]


def is_ours(raw: bytes, size: tuple[int, int]) -> bool:
    return is_as_written(raw, file_of(Image.new("RGB", size)), size)


@pytest.mark.parametrize("size", SIZES)
def test_own_files_are_recognised(size: tuple[int, int]) -> None:
    for picture in pictures(size):
        raw = file_of(picture)
        assert is_ours(raw, size)
        assert not is_ours(raw, (size[0] + 1, size[1]))


SHADES: Final = pictures((161, 120))[2]
RAW: Final = file_of(SHADES)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw + b"\0",
        lambda raw: raw[:-2],
        lambda raw: raw[:-3] + raw[-2:],
        lambda raw: raw[:-2] + b"x" + raw[-2:],
        lambda raw: raw[:-2] + b"\xff\xd0" + raw[-2:],
        lambda raw: raw[: raw.index(b"\xff\xda") + 14] + raw[-2:],
        lambda raw: with_segments(raw, segment(0xFE, b"where I live")),
        lambda raw: with_segments(raw, segment(0xE1, b"Exif\0\0II*\0")),
        lambda raw: raw.replace(b"\xff\xda", segment(0xFE, b"PK") + b"\xff\xda", 1),
        lambda raw: raw.replace(b"JFIF\0\1\1\0\0\1", b"JFIF\0\1\1\0\0\2"),
        lambda raw: file_of(SHADES, 81),
        lambda raw: file_of(SHADES, optimize=False),
        lambda raw: file_of(SHADES, progressive=True),
        lambda raw: file_of(SHADES, subsampling=0),
        lambda raw: file_of(SHADES, restart_marker_blocks=4),
        lambda raw: file_of(SHADES.convert("L")),
        lambda raw: b"",
    ],
)
def test_other_files_are_not_recognised(change: Callable[[bytes], bytes]) -> None:
    assert is_ours(RAW, SHADES.size)
    assert not is_ours(change(RAW), SHADES.size)


@pytest.mark.long
def test_changed_byte_affects_only_pixels() -> None:
    chance = random.Random(5)
    for _ in range(500):
        at = chance.randrange(len(RAW))
        changed = RAW[:at] + bytes([RAW[at] ^ 1 << chance.randrange(8)]) + RAW[at + 1 :]
        if is_ours(changed, SHADES.size):
            # Everything up to the Huffman tables is compared bit by bit.
            assert at > RAW.index(b"\xff\xc4")
            Image.open(BytesIO(changed)).load()
