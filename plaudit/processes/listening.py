"""The port that `plaudit up` serves HTTP at, tried before anything is started."""

import errno
import socket

from plaudit.errors import CommandError
from plaudit.http_settings import HttpSettings


def port_to_listen_at(http: HttpSettings) -> int:
    """The configured port; a free one if that is 0.

    Raises CommandError if the address can't be listened at: its owner would answer instead of our API.
    """
    port = http.port
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(http.host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address[0], port, *address[2:]))
                probe.listen()
                port = probe.getsockname()[1]
    except OSError as error:
        raise CommandError(f"HTTP can't be served on {http.address} ({error.strerror}). {_advice(error)}") from error
    return port


def _advice(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "PLAUDIT_HTTP__HOST must be a name or an address of this machine."
    if error.errno == errno.EACCES:
        return "Ports below 1024 require root: choose another one with PLAUDIT_HTTP__PORT."
    return "Stop the process that uses this port, or choose another port with PLAUDIT_HTTP__PORT."
