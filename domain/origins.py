"""Web origins (RFC 6454): scheme, host and port of the pages that may act for a shop."""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

ORIGIN_LENGTH: Final = 255
"""Maximum number of characters of an origin."""

_HOST: Final = re.compile(r"{0}(\.{0})*|\[[0-9a-f:.]+\]".format("[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?"))
_NUMBER: Final = re.compile(r"\[.+\]|(.+\.)?([0-9]+|0x[0-9a-f]*)")
"""Hosts that are parsed as IP addresses: a domain name can't end like this."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def check_origin(text: str) -> None:
    """Raises ValueError for a text that browsers would never send as `Origin`."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"The origin can't be read: {error}") from error
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise ValueError("Use an origin that begins with https:// or http:// and a host")
    shown = f"[{host}]" if ":" in host else host
    if not _HOST.fullmatch(shown):
        raise ValueError("Write the host of an origin in lower case and in punycode (xn--), as browsers do")
    if _NUMBER.fullmatch(shown) and not _is_address(host):
        raise ValueError("Write an address as browsers do, like 127.0.0.1 or [::1]")
    if port == 0:
        raise ValueError("The port of an origin can't be 0")
    suffix = "" if port is None or port == _DEFAULT_PORTS[parts.scheme] else f":{port}"
    if text != (canonical := f"{parts.scheme}://{shown}{suffix}"):
        raise ValueError(f"An origin has no path, user or default port: use {canonical}")


def _is_address(host: str) -> bool:
    """True for an IP address in canonical notation."""
    try:
        return str(ip_address(host)) == host
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """True for a host that every resolver takes for this machine. The host is in lower case and without brackets."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_confidential(scheme: str, host: str) -> bool:
    """True if nobody else can read traffic from a process to this host: by TLS, or on this machine."""
    return scheme == "https" or is_loopback(host)


def keeps_cookies(scheme: str, host: str) -> bool:
    """True if browsers keep our cookies for this host: they take any name below localhost for this machine, too."""
    return is_confidential(scheme, host) or host.endswith(".localhost")
