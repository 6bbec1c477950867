"""Configurations that are unreadable or without effect, reported by their variable; and closed or full streams."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.command import plaudit
from tests.support.manifests import PROCESSES
from tests.support.waiting import free_port

# Writes like `plaudit privacy export` and `plaudit reviews report`, but without servers.
UNFLUSHED: Final = """
import sys
from plaudit.cli import command_line, main

async def write(settings):
    for _ in range({lines}):
        sys.stdout.write("x" * 99)

main.app = lambda: sys.exit(command_line.run(write))
main.main()
"""
# Connects to a server as commands do.
CONNECTED: Final = """
import asyncio, sys
from plaudit.cli import command_line, main

async def connect(settings):
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1")
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        writer.close()
    sys.stdout.write("x")
    sys.stderr.write("x")
    assert not sys.stdin.isatty()

main.app = lambda: sys.exit(command_line.run(connect))
main.main()
"""
A_LINE, MANY_LINES = (["-c", UNFLUSHED.format(lines=lines), "privacy"] for lines in (1, 1_000))


COMMANDS: Final = [*(["-m", "plaudit", each] for each in ("config", "openapi", "--help")), A_LINE, MANY_LINES]


def run_with_output(folder: Path, command: list[str], output: int) -> tuple[int, str]:
    """Run a command that writes to this descriptor; returns its exit code and its stderr."""
    # The environment may disable Python's buffering.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    result = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=buffered,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(output)
    return result.returncode, result.stderr


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_full_output_device_is_reported_in_one_line(tmp_path: Path, command: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    assert run_with_output(tmp_path, command, full) == (
        1,
        "The output can't be written: No space left on device. Free space there or choose another place, then run this "
        "again.\n",
    )


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_closed_pipe_is_not_reported(tmp_path: Path, command: list[str]) -> None:
    reader, output = os.pipe()
    os.close(reader)
    assert run_with_output(tmp_path, command, output) == (1, "")


@pytest.mark.long
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_command_works_with_closed_streams(tmp_path: Path, closed: str) -> None:
    """Some schedulers close the streams of their jobs instead of connecting them to /dev/null."""
    command = [sys.executable, "-c", CONNECTED, "privacy"]
    result = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "content",
    [None, "not JSON", "7", '{"http": "http://127.0.0.1:1"}'],
    ids=["a folder", "no JSON", "no object", "no addresses"],
)
def test_unreadable_endpoints_are_reported(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / ".plaudit/endpoints.json"
    file.parent.mkdir()
    # The folder stands for an unreadable file: tests may run as root, who can read any file.
    file.mkdir() if content is None else file.write_text(content)
    with (tmp_path / ".plaudit/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a running `plaudit up` does
        check_unreadable_endpoints(tmp_path)


def check_unreadable_endpoints(tmp_path: Path) -> None:
    for command in ("config", "ratings verify", "dlq list", "worker", "demo"):
        stderr = " ".join(plaudit(tmp_path, *command.split(), code=2).stderr.split())
        assert "PLAUDIT_DATA: .plaudit/endpoints.json can't be read" in stderr, command
    assert "endpoints.json can't be read" in plaudit(tmp_path, "doctor", code=1).stdout
    addresses = {"PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1", "PLAUDIT_MONGO__URI": "mongodb://127.0.0.1:1"}
    assert "127.0.0.1:1" in plaudit(tmp_path, "doctor", code=1, **addresses).stdout


def test_argument_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    latin = os.fsdecode(b"caf\xe9")
    assert "caf\ufffd is not UTF-8" in plaudit(tmp_path, "export", "--store", latin, code=2).stderr


def test_files_may_have_names_that_are_not_utf_8(tmp_path: Path) -> None:
    latin, rules, report = (os.fsdecode(b"caf\xe9" + each) for each in (b".csv", b".json", b".jsonl"))
    (tmp_path / latin).write_text("entityId,entityType,review,rating\n1,Product,Good,9\n")
    (tmp_path / rules).write_text("[]")
    for option in ([f"--report={report}"], ["--report", report]):
        assert "1 bad row" in plaudit(tmp_path, "import", "--dry-run", latin, *option, code=1).stdout
        (tmp_path / report).unlink()
    assert "1 bad row" in plaudit(tmp_path, "rules", "try", latin, f"--rules={rules}", code=1).stdout


@pytest.mark.long
@pytest.mark.parametrize(("http", "metrics"), [(0, 65_535), (1, 0)], ids=["beyond the last", "of HTTP"])
def test_up_refuses_unusable_ports_for_metrics(tmp_path: Path, http: int, metrics: int) -> None:
    free = free_port()
    ports = {"HTTP__PORT": free, "METRICS__PORT": metrics or free - http}
    servers = {"MONGO__URI": "mongodb://127.0.0.1:1", "KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    variables = {f"PLAUDIT_{name}": str(value) for name, value in {**ports, **servers}.items()}
    stderr = plaudit(tmp_path, "up", code=2, **variables).stderr
    assert "PLAUDIT_METRICS__PORT: worker and scheduler serve metrics at the ports " in stderr


@pytest.mark.parametrize(("host", "code"), [("127.0.0.1", 1), ("192.0.2.1", 2)], ids=["taken", "of another machine"])
def test_port_for_metrics_can_not_be_used(tmp_path: Path, host: str, code: int) -> None:
    servers = {"PLAUDIT_MONGO__URI": "mongodb://127.0.0.1:1", "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        variables = {**servers, "PLAUDIT_METRICS__HOST": host, "PLAUDIT_METRICS__PORT": port}
        stderr = plaudit(tmp_path, "worker", code=code, **variables).stderr
    assert f"Can't listen on the port PLAUDIT_METRICS__PORT={port}: " in " ".join(stderr.split())


def test_up_refuses_a_folder_for_all_users(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    stderr = plaudit(tmp_path, "up", code=2, PLAUDIT_DATA=str(tmp_path)).stderr
    assert "shared by all users of this machine. Choose a separate folder with PLAUDIT_DATA" in " ".join(stderr.split())


def test_hosts_networks_and_origins_are_accepted(tmp_path: Path) -> None:
    usable = {
        "ALLOWED_HOSTS": ["api", "my_api", "*.Shop.example", "192.0.2.1", "2001:db8::1"],
        "TRUSTED_PROXIES": ["192.0.2.1", "10.0.0.0/8", "2001:db8::/32"],
        "CORS_ORIGINS": ["https://shop.example", "http://localhost:3000"],
    }
    for each in (usable, {name: ["*"] for name in usable}):
        variables = {f"PLAUDIT_HTTP__{name}": json.dumps(value) for name, value in each.items()}
        shown = json.loads(plaudit(tmp_path, "config", code=0, **variables).stdout)["http"]
        assert {name: shown[name.lower()] for name in usable} == each


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "environment", "says"),
    [
        ("worker", {"KAFKA__TLS_CA_FILE": "ca.pem"}, "KAFKA__SECURITY_PROTOCOL: PLAINTEXT has no TLS"),
        ("init", {"KAFKA__SASL_PASSWORD": "pass-of-kafka"}, "KAFKA__SECURITY_PROTOCOL: PLAINTEXT sends no password"),
        ("worker", {"KAFKA__TLS_KEY_FILE": "key.pem", "KAFKA__SECURITY_PROTOCOL": "SSL"}, "KAFKA__TLS_CERT_FILE"),
        ("mailer", {"SMTP__TLS_CA_FILE": "ca.pem"}, "SMTP__TLS_CA_FILE: has no effect"),
        ("mailer", {"SMTP__TLS_CA_FILE": "no-ca.pem", "SMTP__SECURITY": "tls"}, "no-ca.pem: not a usable PEM file"),
        ("mailer", {"SMTP__TLS_CA_FILE": "missing.pem", "SMTP__SECURITY": "tls"}, "missing.pem: No such file"),
        ("mailer", {"SMTP__PASSWORD": "pass-of-mail"}, "SMTP__USERNAME"),
        *((each, {"TRACES__FILE": "none/spans"}, "TRACES__FILE: none/spans: No such file") for each in PROCESSES),
        ("api", {"HTTP__TRUSTED_PROXIES": '["10.0.0.5/8"]'}, "10.0.0.5/8 has host bits set"),
        ("api", {"HTTP__TRUSTED_PROXIES": '["proxy.local"]'}, "HTTP__TRUSTED_PROXIES: 'proxy.local'"),
        ("api", {"HTTP__TRUSTED_PROXIES": '["10.0.0.1", "*"]'}, "HTTP__TRUSTED_PROXIES: '*'"),
        ("api", {"HTTP__CORS_ORIGINS": '["https://shop.example.com/"]'}, "HTTP__CORS_ORIGINS: An origin"),
        ("api", {"HTTP__CORS_ORIGINS": '["https://me:pass-of-me@shop.example"]'}, "HTTP__CORS_ORIGINS"),
        ("api", {"HTTP__CORS_ORIGINS": '["shop.example.com"]'}, "Use an origin that begins with https://"),
        (
            "api",
            {"HTTP__ALLOWED_HOSTS": '["https://shop.example"]'},
            "HTTP__ALLOWED_HOSTS: https://shop.example: must be a host name",
        ),
        ("api", {"HTTP__ALLOWED_HOSTS": '["shop.example:8080"]'}, "shop.example:8080: must be a host name"),
        ("mailer", {"SMTP__HOST": ""}, "SMTP__HOST: must be set to the mail server."),
        ("api", {"HTTP__ALLOWED_HOSTS": '["[::1]"]'}, "HTTP__ALLOWED_HOSTS: [::1]: must be a host name"),
        *(
            ("worker", {name: secret}, f"{name}: each key must have at least 32 characters")
            for name in ("PRIVACY__ERASURE_KEY", "REVIEW_TOKENS__KEY")
            for secret in (f"{'k' * 32},pass-of-us", "")
        ),
    ],
)
def test_security_settings_without_effect_are_refused(
    tmp_path: Path, command: str, environment: dict[str, str], says: str
) -> None:
    (tmp_path / "no-ca.pem").write_text("not a certificate")
    servers = {"KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1", "MONGO__URI": "mongodb://127.0.0.1:1", "SMTP__HOST": "mail"}
    variables = {f"PLAUDIT_{name}": value for name, value in {**servers, **environment}.items()}
    stderr = " ".join(plaudit(tmp_path, command, code=2, **variables).stderr.split())
    assert f"PLAUDIT_{says}" in stderr or says in stderr
    assert "pass-of" not in stderr
