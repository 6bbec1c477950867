"""The ports for HTTP and metrics: `plaudit up` tries them before it starts anything."""

import errno
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from plaudit.config import ConfigurationError, MetricsSettings
from plaudit.errors import CommandError
from plaudit.http_settings import HttpSettings

_LAST_PORT: Final = 65_535
_PASSING: Final = (errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, socket.EAI_AGAIN)


@contextmanager
def port_to_listen_at(http: HttpSettings) -> Iterator[int]:
    """The configured port; a free one if that is 0. Until the block ends, no other `plaudit up` gets it: the API
    listens at it only some seconds later, and would then answer for both.

    Raises what `cannot_listen` returns: its owner would answer instead of our API.
    """
    with ExitStack() as claims:
        try:
            with ExitStack() as probes:
                port, addresses = _listen(http.host, http.port, probes)
            for address in addresses:
                # An abstract name, which exists until its socket is closed, also if the process is killed.
                claims.enter_context(socket.socket(socket.AF_UNIX)).bind(f"\0plaudit up {address} {port}")
        except OSError as error:
            why = f"HTTP can't be served on {http.address} ({error.strerror})."
            raise cannot_listen(f"{why} {_advice(error)}", error) from error
        yield port


def check_metrics_ports(metrics: MetricsSettings, http: HttpSettings, processes: Sequence[str]) -> None:
    """Check that each of these processes gets a port for its metrics: the configured one, or one of those after it.

    Raises what `cannot_listen` returns if one is not free while HTTP is served: its process could never run.
    """
    if not metrics.port:
        return
    first, last = metrics.port, metrics.port + len(processes) - 1
    needed = f"PLAUDIT_METRICS__PORT: {' and '.join(processes)} serve metrics at the ports {first} to {last}"
    if last > _LAST_PORT:
        raise ConfigurationError(f"{needed}: choose at most {metrics.port - last + _LAST_PORT}.")
    with ExitStack() as probes:
        _listen(http.host, http.port, probes)
        for port in range(first, last + 1):
            try:
                _listen(metrics.host, port, probes)
            except OSError as error:
                why = (
                    f"{needed} of {metrics.host}, but {port} can't be used ({error.strerror}). HTTP has the port "
                    f"{http.port}. Choose another one, with free ports after it."
                )
                raise (ConfigurationError(why) if port == http.port else cannot_listen(why, error)) from error


def cannot_listen(message: str, error: OSError) -> CommandError | ConfigurationError:
    """The error of an address that can't be listened at: CommandError if it is taken or the reason passes, which is no
    fault of the configuration."""
    return CommandError(message) if error.errno in _PASSING else ConfigurationError(message)


def _listen(host: str, port: int, probes: ExitStack) -> tuple[int, set[str]]:
    """Listen until the probes are closed; returns the port, and the addresses of the host. Raises OSError if it is
    not free at all of them."""
    addresses = set[str]()
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        probe = probes.enter_context(socket.socket(family, kind, protocol))
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
