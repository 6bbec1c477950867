"""Web origins: scheme, host and port of the pages that may speak for a shop (RFC 6454)."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

ORIGIN_LENGTH: Final = 255
"""The most characters of an origin."""

_HOST: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class InvalidOriginError(ValueError):
    """The text is no origin; the message says why."""


def check_origin(text: str) -> None:
    """Raises InvalidOriginError for a text that browsers would never send as `Origin`."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidOriginError(f"The origin can't be read: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidOriginError("Use an origin that begins with https:// or http:// and a host")
    shown = f"[{host}]" if ":" in host else host
    if not _HOST.fullmatch(shown):
        raise InvalidOriginError("Write the host of an origin in small letters, as browsers do (xn-- for others)")
    own = "" if port is None or port == _DEFAULT_PORTS[parts.scheme] else f":{port}"
    if text != (right := f"{parts.scheme}://{shown}{own}"):
        raise InvalidOriginError(f"An origin has no path, user or usual port: {right}")


def is_confidential(scheme: str, host: str) -> bool:
    """True if nobody else can listen to what goes to this host, in small letters and without brackets: TLS, or a name
    of this machine. Browsers keep our cookies there alone."""
    if scheme == "https" or host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
