"""The address of `plaudit up` where it can't be bound."""

import errno
import os
import socket

import pytest

from plaudit.config import ConfigurationError, MetricsSettings
from plaudit.errors import CommandError
from plaudit.http_settings import HttpSettings
from plaudit.processes.listening import check_metrics_ports, port_to_listen_at
from tests.support.waiting import free_port

STOP = "Stop the process that uses this port, or choose another port with PLAUDIT_HTTP__PORT."
HOST = "PLAUDIT_HTTP__HOST must be a name or an address of this machine."
ROOT = "Ports below 1024 require root: choose another one with PLAUDIT_HTTP__PORT."


def test_free_port() -> None:
    port = free_port()
    with port_to_listen_at(HttpSettings(port=port)) as found:
        assert found == port
    with port_to_listen_at(HttpSettings(port=0)) as found:
        assert found > 0


def test_port_is_kept_until_the_block_ends() -> None:
    """Nothing listens at it yet, so it could be bound."""
    http = HttpSettings(port=free_port())
    with (
        port_to_listen_at(http),
        pytest.raises(CommandError, match=r"Address already in use.* choose another port"),
        port_to_listen_at(http),
    ):
        pass
    with port_to_listen_at(http) as found:
        assert found == http.port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])  # noqa: S104 - listens for a moment
def test_port_of_http_is_not_used_for_metrics(host: str) -> None:
    port, processes = free_port(), ["worker"]
    http = HttpSettings(host=host, port=port)
    with pytest.raises(ConfigurationError, match=rf"PLAUDIT_METRICS__PORT: worker .* HTTP has the port {port}\. "):
        check_metrics_ports(MetricsSettings(port=port), http, processes)
    check_metrics_ports(MetricsSettings(host="127.0.0.2", port=port), HttpSettings(port=port), processes)
    check_metrics_ports(MetricsSettings(), http, processes)


def test_port_of_another_process_is_not_used_for_metrics() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        metrics = MetricsSettings(host="127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(CommandError, match=r"PLAUDIT_METRICS__PORT: worker serve.* \(Address already in use\)"):
            check_metrics_ports(metrics, HttpSettings(port=0), ["worker"])


def test_each_process_has_a_port_for_metrics() -> None:
    with pytest.raises(ConfigurationError, match=r"at the ports 65535 to 65537: choose at most 65533\."):
        check_metrics_ports(MetricsSettings(port=65_535), HttpSettings(), ("worker", "scheduler", "mailer"))


@pytest.mark.parametrize(
    ("number", "expected", "advice"),
    [
        (errno.EADDRINUSE, CommandError, STOP),
        (errno.EADDRNOTAVAIL, ConfigurationError, HOST),
        (errno.EACCES, ConfigurationError, ROOT),
    ],
)
def test_bind_error_gives_advice(
    number: int, expected: type[Exception], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "bind", bind)
    with pytest.raises(expected) as caught, port_to_listen_at(HttpSettings()):
        pass
    assert str(caught.value) == f"HTTP can't be served on http://127.0.0.1:8080 ({os.strerror(number)}). {advice}"


def test_unknown_host_name_gives_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(ConfigurationError) as caught, port_to_listen_at(HttpSettings(host="nohost.invalid")):
        pass
    assert str(caught.value).endswith(f"(Name or service not known). {HOST}")
