"""Mail addresses as people write them, with or without a name: `Anna Berg <anna@example.com>`."""

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
"""Addresses that need no parser, which takes a hundred times as long."""
_ASCII_LABEL: Final = re.compile("[a-z0-9_-]+")
_DOMAIN: Final = re.compile(r'[^\[\]()<>@,:;"\\\s]+|\[(IPv6:)?[0-9A-Fa-f:.]+\]')
"""A domain, or the number of a server, without what ends an address: encoded words hide that from the parser."""
_NO_TEXT: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u200b\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Controls, separators of lines, halves of characters, the space without width, and what turns the direction."""


class InvalidAddressError(ValueError):
    """The text is not one mail address."""

    def __init__(self) -> None:
        super().__init__("Must be one e-mail address, like shop@example.org or Shop <shop@example.org>")


def mailbox(text: str) -> Address:
    """The one address in a text, its domain in ASCII. Raises InvalidAddressError, which doesn't repeat the text."""
    if len(text) > 2 * _LONGEST_ADDRESS or any(ord(character) < 32 for character in text):
        raise InvalidAddressError
    try:
        header: Any = _HEADERS("To", text)
        (group,) = header.groups
        (address,) = group.addresses
        domain = _in_ascii(address.domain)
    except Exception as failure:  # the parser stumbles over "anna@" (IndexError), "anna@[" (AttributeError) and more
        raise InvalidAddressError from failure
    wrong = [defect for defect in header.defects if not isinstance(defect, NonASCIILocalPartDefect)]
    if wrong or group.display_name is not None or not address.username or len(domain) > _LONGEST_DOMAIN:
        raise InvalidAddressError
    if not (address.username + domain).isprintable() or not _DOMAIN.fullmatch(domain):
        raise InvalidAddressError
    return Address(one_line(address.display_name), address.username, domain)


def _in_ascii(domain: str) -> str:
    """The domain as the mail server looks it up, by IDNA 2008: faß.de and fass.de are two. Raises ValueError."""
    if not domain.isascii():
        labels = idna.uts46_remap(domain, std3_rules=False).split(".")
        # IDNA 2008 refuses some in ASCII that are in use. The full-width forms of "@" and "," are in ASCII by now.
        domain = ".".join(label if _ASCII_LABEL.fullmatch(label) else idna.alabel(label).decode() for label in labels)
    # Checks the lengths of its labels alone.
    return domain.encode("idna").decode()


def is_usual(text: str) -> bool:
    """True for an address without a name that needs no parser."""
    return _USUAL.fullmatch(text) is not None


@lru_cache(maxsize=1_024)
def address_in(text: str) -> str | None:
    """The address in a text, without its name; None for a text that is not one mail address."""
    if is_usual(text):
        return text
    try:
        return mailbox(text).addr_spec
    except InvalidAddressError:
        return None


def bare_address(text: str) -> str:
    """The address without its name; a text that is no address stays as it is."""
    return address_in(text) or text


def one_line(text: str) -> str:
    """Text without what ends a line or hides: a line break would end the header, and start another one. Joiners stay,
    without which Persian, Sinhala and emoji are others."""
    return " ".join(_NO_TEXT.sub(" ", text).split())
