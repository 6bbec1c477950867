"""The URL of the page where a customer writes a review, by the template of a store."""

from collections.abc import Iterator
from string import Formatter
from typing import Final
from urllib.parse import quote, urlsplit

from domain.review_tokens import ReviewToken

URL_LENGTH: Final = 1_024
"""Maximum number of characters of a template."""

_SAMPLE: Final = "x"
_LANGUAGE: Final = "languageCode"
_PLACEHOLDERS: Final = ("productId", "token", "storeId", "orderId", "orderLineItemId", _LANGUAGE)


def check_review_url(template: str) -> None:
    """Raises ValueError unless the template is an http or https URL with placeholders only after its host.

    An empty template means none, and passes.
    """
    if not template:
        return
    if len(template) > URL_LENGTH:
        raise ValueError(f"The address has more than {URL_LENGTH} characters")
    if not template.isascii() or any(character <= " " or character in '"<>\\^`|\x7f' for character in template):
        raise ValueError("The address contains characters that must be percent-encoded")
    fields = list(_fields(template))
    for name in fields:
        if name not in _PLACEHOLDERS:
            shown = ", ".join(f"{{{known}}}" for known in _PLACEHOLDERS)
            raise ValueError(f"There is no placeholder {{{name}}}: use {shown}")
    try:
        parts = urlsplit(_filled(template, dict.fromkeys(_PLACEHOLDERS, _SAMPLE)))
        has_host = bool(parts.hostname) and parts.port != 0
        start = urlsplit(template)
    except ValueError as error:
        raise ValueError(f"The address can't be read: {error}") from error
    if parts.scheme not in ("http", "https") or not has_host or parts.username is not None:
        raise ValueError("Use an address that begins with https:// or http:// and a host")
    if start.scheme + start.netloc != parts.scheme + parts.netloc:
        raise ValueError("Placeholders are only allowed after the host")


def review_url(template: str, token: ReviewToken, text: str, language_code: str | None = None) -> str | None:
    """The URL for the review that a token is for; `text` is the signed token. The template has been checked.

    None if the template needs a language, and there is none.
    """
    if not language_code and _LANGUAGE in _fields(template):
        return None
    values = (token.product_id, text, token.store_id, token.order_id, token.line_id, language_code)
    return _filled(template, dict(zip(_PLACEHOLDERS, (quote(value or "", safe="") for value in values), strict=True)))


def _filled(template: str, values: dict[str, str]) -> str:
    return template.format_map(values)


def _fields(template: str) -> Iterator[str]:
    """The names of the placeholders in a template. Raises ValueError for one with a format or a conversion."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"The address can't be read: {error}") from error
    for _, name, spec, conversion in parsed:
        if name is None:
            continue
        if spec or conversion:
            raise ValueError(f"Write {{{name}}} without a format")
        yield name
