"""Bytes have exactly one base64url encoding; others are refused."""

import pytest

from domain.base64url import decoded, encoded

SPELLINGS = [
    ("", b""),
    ("Fw", b"\x17"),
    ("ABc", b"\0\x17"),
    ("AAAX", b"\0\0\x17"),
    ("-_8", b"\xfb\xff"),
    ("A" * 10, b"\0" * 7),
]


@pytest.mark.parametrize(("text", "content"), SPELLINGS)
def test_bytes_are_encoded_without_padding(text: str, content: bytes) -> None:
    assert encoded(content) == text
    assert decoded(text) == content


@pytest.mark.parametrize("text", ["Fx", "Fw==", "+/8", "Fw ", "AAAX="])
def test_non_canonical_encodings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^isn't base64url without padding$"):
        decoded(text)


@pytest.mark.parametrize("text", ["A", "AAAXX", "é"])
def test_invalid_encodings_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|ascii"):
        decoded(text)
