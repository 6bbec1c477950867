"""Mail addresses with or without a display name: `Anna Berg <anna@example.com>`."""

import re
from email.errors import NonASCIILocalPartDefect
from email.headerregistry import Address, HeaderRegistry
from functools import lru_cache
from typing import Any, Final

import idna

_HEADERS: Final = HeaderRegistry()
_LONGEST_ADDRESS: Final = 320
_LONGEST_DOMAIN: Final = 255
_USUAL: Final = re.compile(
    r"[A-Za-z0-9_+-]{1,64}(\.[A-Za-z0-9_+-]{1,64}){0,3}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63}){0,2}"
)
"""Common addresses, accepted without the parser, which takes a hundred times as long."""
_ASCII_LABEL: Final = re.compile("[a-z0-9_-]+")
_DOMAIN: Final = re.compile(r'[^\[\]()<>@,:;"\\\s]+|\[(IPv6:)?[0-9A-Fa-f:.]+\]')
"""A domain name or an IP literal without address delimiters, which encoded words can hide from the parser."""
_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u200b\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, line separators, surrogates, the zero-width space, and bidirectional controls."""


class InvalidAddressError(ValueError):
    """The text is not one mail address."""

    def __init__(self) -> None:
        super().__init__("Must be a single e-mail address, like shop@example.org or Shop <shop@example.org>")


def mailbox(text: str) -> Address:
    """The single address in a text, its domain in ASCII. Raises InvalidAddressError, which doesn't repeat the text."""
    if len(text) > 2 * _LONGEST_ADDRESS or any(ord(character) < 32 for character in text):
        raise InvalidAddressError
    try:
        header: Any = _HEADERS("To", text)
        (group,) = header.groups
        (address,) = group.addresses
        domain = in_ascii(address.domain)
    except Exception as failure:  # "anna@" makes the parser raise IndexError, "anna@[" AttributeError, and so on
        raise InvalidAddressError from failure
    wrong = [defect for defect in header.defects if not isinstance(defect, NonASCIILocalPartDefect)]
    if wrong or group.display_name is not None or not address.username or len(domain) > _LONGEST_DOMAIN:
        raise InvalidAddressError
    if not (address.username + domain).isprintable() or not _DOMAIN.fullmatch(domain):
        raise InvalidAddressError
    return Address(one_line(address.display_name), address.username, domain)


def in_ascii(domain: str) -> str:
    """The domain in ASCII by IDNA 2008, as browsers and mail servers look it up: faß.de is not fass.de. Raises
    ValueError."""
    if not domain.isascii():
        labels = idna.uts46_remap(domain, std3_rules=False).split(".")
        # Labels of plain ASCII skip IDNA 2008, which refuses some that are in use. The remapping has turned full-width
        # "@" and "," into ASCII, so being ASCII alone isn't enough.
        domain = ".".join(label if _ASCII_LABEL.fullmatch(label) else idna.alabel(label).decode() for label in labels)
    # The domain is ASCII: this only checks the lengths of its labels.
    return domain.encode("idna").decode()


def is_usual(text: str) -> bool:
    """True for a common address without a display name, which needs no parser."""
    return _USUAL.fullmatch(text) is not None


@lru_cache(maxsize=1_024)
def address_in(text: str) -> str | None:
    """The address in a text, without its display name; None unless the text is exactly one mail address."""
    if is_usual(text):
        return text
    try:
        return mailbox(text).addr_spec
    except InvalidAddressError:
        return None


def bare_address(text: str) -> str:
    """The address without its display name; a text that is not an address is returned unchanged."""
    return address_in(text) or text


def one_line(text: str) -> str:
    """The text on one line, without invisible characters: a line break would end the header and start another one.

    Joiners stay, since Persian, Sinhala and emoji depend on them.
    """
    return " ".join(_INVISIBLE.sub(" ", text).split())
