"""Bytes as text that can stand in addresses and headers: base64url without padding (RFC 4648, 5)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encoded(content: bytes) -> str:
    """The text of these bytes."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """The bytes that have this very text. Raises ValueError for any other text."""
    # As much padding as any may need.
    content = urlsafe_b64decode(text.encode("ascii") + b"==")
    if encoded(content) != text:
        raise ValueError("isn't base64url without padding")
    return content
