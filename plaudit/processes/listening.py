"""The port that `plaudit up` serves HTTP at, tried before anything is started."""

import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from plaudit.errors import CommandError
from plaudit.http_settings import HttpSettings


@contextmanager
def port_to_listen_at(http: HttpSettings) -> Iterator[int]:
    """The configured port; a free one if that is 0. Until the block ends, no other `plaudit up` gets it: the API
    listens at it only some seconds later, and would then answer for both.

    Raises CommandError if the address can't be listened at: its owner would answer instead of our API.
    """
    with ExitStack() as claims:
        try:
            port, addresses = _bindable(http)
            for address in addresses:
                # An abstract name, which exists until its socket is closed, also if the process is killed.
                claims.enter_context(socket.socket(socket.AF_UNIX)).bind(f"\0plaudit up {address} {port}")
        except OSError as error:
            why = f"HTTP can't be served on {http.address} ({error.strerror})."
            raise CommandError(f"{why} {_advice(error)}") from error
        yield port


def _bindable(http: HttpSettings) -> tuple[int, set[str]]:
    """The port, and the addresses of the host, at all of which it is free. Raises OSError if it isn't."""
    port, addresses = http.port, set[str]()
    for family, kind, protocol, _, address in socket.getaddrinfo(http.host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address[0], port, *address[2:]))
            probe.listen()
            port = probe.getsockname()[1]
        addresses.add(str(address[0]))
    return port, addresses


def _advice(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "PLAUDIT_HTTP__HOST must be a name or an address of this machine."
    if error.errno == errno.EACCES:
        return "Ports below 1024 require root: choose another one with PLAUDIT_HTTP__PORT."
    return "Stop the process that uses this port, or choose another port with PLAUDIT_HTTP__PORT."
