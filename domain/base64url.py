"""Base64url without padding (RFC 4648, 5): bytes as text that is safe in URLs and headers."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encoded(content: bytes) -> str:
    """The bytes in base64url, without padding."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """The inverse of `encoded`. Raises ValueError for any text that `encoded` doesn't return."""
    # Two characters are the most padding that any length needs; surplus padding is ignored.
    content = urlsafe_b64decode(text.encode("ascii") + b"==")
    if encoded(content) != text:
        raise ValueError("isn't base64url without padding")
    return content
