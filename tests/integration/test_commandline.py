"""The command line: its output, hidden secrets, errors and exit codes."""

import fcntl
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest

from tests.support.command import plaudit
from tests.support.processes import Marked
from tests.support.service import PARTITIONS, Json, Servers, Service
from tests.support.up_command import Up
from tests.support.waiting import free_port

PROXIES = {"ALL_PROXY": "socks5://proxy.invalid:1080", "HTTP_PROXY": "http://proxy.invalid:3128"}
"""Proxies for the internet, as behind a firewall; commands must not use them for the own service."""


def configuration(folder: Path, **environment: str) -> Json:
    """Return the output of `plaudit config`, which must show no secret."""
    shown = plaudit(folder, "config", code=0, **environment)
    assert "pass-of" not in shown.stdout + shown.stderr
    result: Json = json.loads(shown.stdout)
    return result


@pytest.mark.long
def test_config_hides_secrets(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PLAUDIT_HTTP__PORT=8123\nPLAUDIT_KAFKA__TOPIC_PREFIX=env.\n")
    shown = configuration(
        tmp_path,
        PLAUDIT_KAFKA__BOOTSTRAP_SERVERS="kafka:9092",
        PLAUDIT_KAFKA__TOPIC_PREFIX="shop.",
        PLAUDIT_KAFKA__SASL_USERNAME="plaudit",
        PLAUDIT_KAFKA__SASL_PASSWORD="pass-of-kafka",
        PLAUDIT_MONGO__URI="mongodb://plaudit:pass-of-mongo@mongo/?replicaSet=rs",
    )
    assert shown["kafka"]["bootstrap_servers"] == "kafka:9092"
    assert shown["kafka"]["topic_prefix"] == "shop."
    assert shown["http"]["port"] == 8123


@pytest.mark.long
def test_config_hides_credentials_in_addresses(tmp_path: Path) -> None:
    shown = configuration(
        tmp_path,
        PLAUDIT_KAFKA__BOOTSTRAP_SERVERS="kafka:pass-of-kafka@one:9092,kafka:pass-of-kafka@two:9092",
        PLAUDIT_KAFKA__SASL_TOKEN_URL="https://plaudit:pass-of-issuer@login.example.com/token?client_secret=pass-of-query",
        PLAUDIT_AUTH__JWT__ISSUER="https://login.example.com/?sig=pass-of-issuer",
        PLAUDIT_AUTH__JWT__JWKS_URL="https://pass-of-user@keys.example.com/jwks?code=pass-of-query&v=2",
        PLAUDIT_SMTP__SENDER="Shop <shop@example.com>",
    )
    assert shown["kafka"]["bootstrap_servers"].endswith("@two:9092")
    assert shown["kafka"]["sasl_token_url"].endswith("@login.example.com/token?**********")
    assert shown["smtp"]["sender"] == "Shop <shop@example.com>"


@pytest.mark.long
def test_config_follows_the_running_up(tmp_path: Path) -> None:
    shown = configuration(tmp_path)
    assert (shown["runningUp"], shown["mongo"]["uri"], shown["http"]["port"]) == (None, None, 8080)
    endpoints: Json = {
        "http": "http://127.0.0.1:9137",
        "kafka": "127.0.0.1:9138",
        "mongo": "mongodb://plaudit:pass-of-mongo@127.0.0.1:9139/?replicaSet=rs",
        "database": "shop",
        "idempotence": False,
        "kafkaSasl": {
            **{"securityProtocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"},
            **{"username": "plaudit", "password": "pass-of-kafka"},
        },
    }
    (tmp_path / ".plaudit").mkdir()
    (tmp_path / ".plaudit/endpoints.json").write_text(json.dumps(endpoints))
    shown = configuration(tmp_path)
    assert (shown["runningUp"], shown["broker"]) == (".plaudit/endpoints.json", "tansu")
    assert (shown["http"]["host"], shown["http"]["port"]) == ("127.0.0.1", 9137)
    assert shown["mongo"]["uri"].startswith("mongodb://**********@127.0.0.1:9139/")
    assert shown["mongo"]["database"] == "shop"
    kafka = shown["kafka"]
    assert (kafka["bootstrap_servers"], kafka["security_protocol"]) == ("127.0.0.1:9138", "SASL_PLAINTEXT")
    configured = configuration(tmp_path, PLAUDIT_KAFKA__BOOTSTRAP_SERVERS=endpoints["kafka"])
    assert (configured["kafka"]["bootstrap_servers"], configured["broker"]) == (endpoints["kafka"], "auto")
    stderr = plaudit(tmp_path, "config", code=2, PLAUDIT_KAFKA__BOOTSTRAP_SERVERS="kafka:9092").stderr
    assert "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS is not the server of the `plaudit up` in .plaudit" in stderr


@pytest.mark.parametrize("data", ["file", "file/below"])
def test_file_as_data_folder_is_reported(tmp_path: Path, data: str) -> None:
    (tmp_path / "file").touch()
    for command in ("config", "up", "dlq list"):
        output = plaudit(tmp_path, *command.split(), code=2, PLAUDIT_DATA=data).stderr
        assert "PLAUDIT_DATA: file is not a folder" in output
    output = plaudit(tmp_path, "doctor", code=1, PLAUDIT_DATA=data).stdout
    assert "PLAUDIT_DATA: file is not a folder" in output


@contextmanager
def up_in(folder: Path, http: str) -> Iterator[None]:
    """Leave the files of a `plaudit up` with unreachable servers in a folder; it counts as running until the block
    ends."""
    data = folder / ".plaudit"
    data.mkdir()
    servers = {"http": http, "kafka": "127.0.0.1:1", "mongo": "mongodb://127.0.0.1:1", "database": "plaudit"}
    (data / "endpoints.json").write_text(json.dumps(servers))
    with (data / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_endpoints_of_killed_up_are_ignored(tmp_path: Path) -> None:
    with up_in(tmp_path, "http://127.0.0.1:9137"):
        assert configuration(tmp_path)["runningUp"] == ".plaudit/endpoints.json"
    assert configuration(tmp_path)["runningUp"] is None
    assert "start `plaudit up`" in plaudit(tmp_path, "ratings", "verify", code=1).stderr


async def test_commands_use_the_database_of_the_running_up(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    environment = service.command_environment()
    data = tmp_path / "data"
    data.mkdir()
    endpoints = {"http": "http://127.0.0.1:9137", "kafka": servers.kafka, "mongo": servers.mongo}
    (data / "endpoints.json").write_text(json.dumps({**endpoints, "database": service.database}))
    await service.mark()
    await service.run("keys", "create", "here", "--permission", "settings:read")
    without_mongo = {name: value for name, value in environment.items() if not name.startswith("PLAUDIT_MONGO__")}
    with (data / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        listed = plaudit(tmp_path, "keys", "list", code=0, **{**without_mongo, "PLAUDIT_DATA": str(data)})
    assert "here" in listed.stdout


def test_broker_that_cannot_start_is_reported(tmp_path: Path) -> None:
    stderr = plaudit(tmp_path, "up", code=1, PLAUDIT_BROKER="kafka", JAVA_HOME="/nowhere").stderr
    assert stderr.startswith("JAVA_HOME is /nowhere, but that has no bin/java. Install Java")


@pytest.mark.long
async def test_killed_up_releases_its_resources(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    environment = service.command_environment()
    external_servers = ("PLAUDIT_KAFKA__", "PLAUDIT_MONGO__")
    up = Up(
        tmp_path,
        Marked(),
        "auto",
        **{name: value for name, value in environment.items() if name.startswith(external_servers)},
        **PROXIES,
        PLAUDIT_HTTP__PORT="0",
    )
    async with up.started() as process:
        await up.says(process, "Ctrl-C stops everything")
        assert urlsplit(json.loads(up.endpoints.read_text())["http"]).port
        assert json.loads(up.run("config").stdout)["runningUp"] == str(up.endpoints)
        second = up.run("up")
        assert (second.returncode, "is in use by another `plaudit up`" in second.stderr) == (1, True)
    await up.nothing_is_left()
    assert up.endpoints.exists()
    assert json.loads(up.run("config").stdout)["runningUp"] is None
    async with up.started() as process:
        await up.says(process, "Ctrl-C stops everything")
        assert sorted(each.name for each in up.endpoints.parent.glob("logs/*.1")) == [
            *("api.log.1", "scheduler.log.1", "worker.log.1")
        ]
    await up.nothing_is_left()


@pytest.mark.long
async def test_init_can_be_repeated(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path)
    first = await service.run("init")
    assert service.topic("review-submissions") in first.stdout
    again = await service.run("init")
    assert "All topics exist." in again.stdout
    assert service.prefix not in again.stdout
    for topic in ("review-submissions", "moderation-commands", "review-changes", "store-updates"):
        assert await service.partitions(topic) == PARTITIONS
        assert await service.partitions(f"{topic}.dlq") == PARTITIONS
    async with service.mongo() as database:
        assert "entity_newest" in await database["reviews"].index_information()


@pytest.mark.parametrize("command", ["api", "worker", "init", "ratings verify"])
def test_missing_address_is_named(tmp_path: Path, command: str) -> None:
    result = plaudit(tmp_path, *command.split(), code=1)
    assert "PLAUDIT_MONGO__URI" in result.stderr
    assert "plaudit up" in result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "environment", "says"),
    [
        ("nonsense", {}, "nonsense"),
        ("worker --nonsense", {}, "--nonsense"),
        ("ratings nonsense", {}, "nonsense"),
        ("dlq list --limit x", {}, "'--limit': Must be a whole number"),
        ("dlq list --limit 0", {}, "'--limit': Must be at least 1"),
        ("export --format xml", {}, "'--format': 'xml' is not one of"),
        ("config", {"PLAUDIT_HTTP__PORT": "http"}, "PLAUDIT_HTTP__PORT"),
        (
            "config",
            {"PLAUDIT_HTTP__CORS_ORIGINS": "https://a.example"},
            'PLAUDIT_HTTP__CORS_ORIGINS: must be JSON, a list like ["a", "b"]',
        ),
        ("init", {"PLAUDIT_HTTP": "port=8080"}, "PLAUDIT_HTTP: must be JSON"),
        ("worker", {"PLAUDIT_KAFKA__PARTITIONS": "0"}, "PLAUDIT_KAFKA__PARTITIONS"),
        ("init", {"PLAUDIT_KAFKA__TOPIC_PREFIX": "my shop/"}, "PLAUDIT_KAFKA__TOPIC_PREFIX"),
        ("init", {"PLAUDIT_KAFKA__RETENTION_DAYS": "36500"}, "PLAUDIT_KAFKA__RETENTION_DAYS"),
        ("api", {"PLAUDIT_LOG__FORMAT": "xml"}, "PLAUDIT_LOG__FORMAT"),
        ("api", {"PLAUDIT_HTTP__HOST": "0.0.0.0"}, "PLAUDIT_AUTH__MODE"),  # noqa: S104 - refused
        ("up", {"PLAUDIT_HTTP__HOST": "0.0.0.0"}, "PLAUDIT_AUTH__MODE"),  # noqa: S104 - refused
        ("api", {"PLAUDIT_AUTH__MODE": "jwt"}, "PLAUDIT_AUTH__JWT__ISSUER"),
        ("api", {"PLAUDIT_AUTH__JWT__ALGORITHMS": '["HS256"]'}, "PLAUDIT_AUTH__JWT__ALGORITHMS"),
        ("worker", {"PLAUDIT_LOG": "garbage"}, "PLAUDIT_LOG: must be JSON"),
        ("worker", {"PLAUDIT_LOG": '{"format": 1}'}, "PLAUDIT_LOG__FORMAT"),
        ("worker", {"PLAUDIT_IMAGES__STORE": "https://bucket.example"}, "PLAUDIT_IMAGES__STORE"),
    ],
)
def test_wrong_usage_is_reported(tmp_path: Path, command: str, environment: dict[str, str], says: str) -> None:
    assert says in plaudit(tmp_path, *command.split(), code=2, **environment).stderr


@pytest.mark.long
@pytest.mark.parametrize("command", ["api", "worker", "init", "doctor"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:port"),
        ("KAFKA__BOOTSTRAP_SERVERS", "kafka:70000"),
        ("KAFKA__SASL_USERNAME", ""),
        ("KAFKA__TLS_CA_FILE", "missing.pem"),
        ("MONGO__URI", "mongodb://mongo:99999"),
        ("MONGO__URI", "http://mongo"),
        ("MONGO__URI", "mongodb://mongo/?tls=true&tlsCAFile=missing.pem"),
        ("MONGO__DATABASE", "a b"),
    ],
)
def test_unusable_setting_is_named_by_its_variable(tmp_path: Path, command: str, variable: str, value: str) -> None:
    usable = {"KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1", "MONGO__URI": "mongodb://127.0.0.1:1"}
    security = {"KAFKA__SASL_USERNAME": "SASL_PLAINTEXT", "KAFKA__TLS_CA_FILE": "SSL"}.get(variable, "PLAINTEXT")
    variables = {**usable, "KAFKA__SECURITY_PROTOCOL": security, variable: value}
    environment = {f"PLAUDIT_{name}": value for name, value in variables.items()}
    result = plaudit(tmp_path, *command.split(), code=1 if command == "doctor" else 2, **environment)
    assert f"PLAUDIT_{variable}" in result.stdout + result.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("variable", "value"),
    [("KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:port"), ("MONGO__URI", "http://mongo"), ("MONGO__URI", "mongodb://a:0")],
)
def test_unusable_address_is_reported_before_a_server_is_started(tmp_path: Path, variable: str, value: str) -> None:
    """The other server would be an embedded one."""
    result = plaudit(tmp_path, "up", code=2, **{f"PLAUDIT_{variable}": value, "PLAUDIT_HTTP__PORT": "0"})
    assert f"PLAUDIT_{variable}" in result.stderr
    assert "Starting" not in result.stdout + result.stderr


@pytest.mark.long
@pytest.mark.parametrize("password", ["pass-of/mongo-db", "12345/pass-of", "12345?pass-of", "pass-of@mongo-db"])
def test_password_that_is_not_escaped_is_not_printed(tmp_path: Path, password: str) -> None:
    environment = {
        "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "PLAUDIT_MONGO__URI": f"mongodb://plaudit:{password}@mongo/?replicaSet=rs",
    }
    result = plaudit(tmp_path, "init", code=2, **environment)
    assert "PLAUDIT_MONGO__URI" in result.stderr
    assert [part for part in ("pass-of", "mongo-db", "12345") if part in result.stdout + result.stderr] == []


@pytest.mark.long
@pytest.mark.parametrize(
    "report", ["r.jsonl", "../shop/r.jsonl", "again.jsonl", "r.jsonl.plaudit-import.json", "r.jsonl.images/bad.jsonl"]
)
def test_report_does_not_overwrite_import_files(tmp_path: Path, report: str) -> None:
    folder = tmp_path / "shop"
    (folder / "r.jsonl.images").mkdir(parents=True)
    (folder / "r.jsonl").write_text("{}\n")
    (folder / "again.jsonl").hardlink_to(folder / "r.jsonl")
    for option in ("--dry-run", "--as-new"):
        stderr = plaudit(folder, "import", "r.jsonl", "--report", report, option, code=2).stderr
        assert "name another file" in stderr
    assert (folder / "r.jsonl").read_text() == "{}\n"
    assert len(list(folder.rglob("*"))) == 3


@pytest.mark.parametrize(
    "command",
    [["import", "r.csv", "--store", ""], ["import", "r.csv", "--entity-type", " "], ["export", "--entity-type", ""]],
)
def test_empty_name_does_not_mean_all(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "r.csv").write_text("entityId,entityType,review,rating\n")
    assert "Must not be empty" in plaudit(tmp_path, *command, code=2).stderr


def test_demo_without_service(tmp_path: Path) -> None:
    stderr = plaudit(tmp_path, "demo", code=1, PLAUDIT_HTTP__PORT=str(free_port()), **PROXIES).stderr
    assert "Start it first: make up" in " ".join(stderr.split())


def test_demo_against_another_server(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as other:
        Thread(target=other.serve_forever).start()
        stderr = plaudit(tmp_path, "demo", code=1, PLAUDIT_HTTP__PORT=str(other.server_port)).stderr
        other.shutdown()
    assert "returned 501 instead of 200" in " ".join(stderr.split())


@pytest.mark.long
def test_demo_at_another_port_than_the_running_up(tmp_path: Path) -> None:
    port = free_port()
    here = f"http://127.0.0.1:{port}"
    with up_in(tmp_path, here):
        for command in (["demo"], ["demo", "--fill", "1"]):
            stderr = " ".join(plaudit(tmp_path, *command, code=2, PLAUDIT_HTTP__PORT="1").stderr.split())
            assert f"PLAUDIT_HTTP__PORT is 1, but the `plaudit up` in .plaudit listens on {here}" in stderr
        for configured in (str(port), "0"):
            stderr = plaudit(tmp_path, "demo", code=1, PLAUDIT_HTTP__PORT=configured, **PROXIES).stderr
            assert "Start it first: make up" in " ".join(stderr.split())


@pytest.mark.long
def test_database_other_than_that_of_the_running_up_is_refused(tmp_path: Path) -> None:
    with up_in(tmp_path, "http://127.0.0.1:1"):
        for command in (
            ["keys", "list"],
            ["ratings", "verify"],
            ["privacy", "erase", "--customer", "u", "--yes"],
            ["config"],
        ):
            stderr = " ".join(plaudit(tmp_path, *command, code=2, PLAUDIT_MONGO__DATABASE="copy").stderr.split())
            assert (
                "PLAUDIT_MONGO__DATABASE is copy, but the `plaudit up` in .plaudit uses the database plaudit" in stderr
            )
        shown = json.loads(plaudit(tmp_path, "config", PLAUDIT_MONGO__DATABASE="plaudit").stdout)
        assert shown["mongo"]["database"] == "plaudit"


def test_names_reserved_for_rules_are_refused_for_keys(tmp_path: Path) -> None:
    for name in ("rule:low", "verdict:ai"):
        stderr = plaudit(tmp_path, "keys", "create", name, "--permission", "settings:read", code=2).stderr
        assert "Use another name." in " ".join(stderr.split())


def test_worker_creates_data_folder_with_private_mode(tmp_path: Path) -> None:
    assert "start `plaudit up`" in plaudit(tmp_path, "worker", code=1).stderr
    assert stat.S_IMODE((tmp_path / ".plaudit").stat().st_mode) == 0o700


def test_ipv6_address_is_bracketed(tmp_path: Path) -> None:
    port = str(free_port())
    stderr = plaudit(tmp_path, "demo", code=1, PLAUDIT_HTTP__HOST="::1", PLAUDIT_HTTP__PORT=port).stderr
    assert f"No service answers at http://[::1]:{port}" in stderr


@pytest.mark.long
def test_output_is_utf_8_in_every_locale(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(
        [sys.executable, "-m", "plaudit", "doctor"], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert "→ PLAUDIT_MONGO__URI is not set" in result.stdout.decode(), result.stderr


def test_help_lists_commands(tmp_path: Path) -> None:
    shown = plaudit(tmp_path, "--help")
    for command in ("up", "api", "worker", "init", "demo", "config", "ratings"):
        assert f" {command} " in shown.stdout


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("command", ["init", "api", "worker"])
async def test_topics_refused_by_kafka_are_reported(servers: Servers, tmp_path: Path, command: str) -> None:
    service = Service(servers, tmp_path, environment={"PLAUDIT_KAFKA__REPLICATION_FACTOR": "3"})
    stderr = " ".join((await service.run(command, code=1)).stderr.split())
    assert "can't be created: Unable to replicate the partition 3 time(s)" in stderr
    assert "Traceback" not in stderr


async def test_port_in_use_is_reported(service: Service, tmp_path: Path) -> None:
    second = Service(service.servers, tmp_path, port=service.port)
    for command in ("api", "up"):
        stderr = " ".join((await second.run(command, code=1)).stderr.split())
        assert stderr.endswith("choose another port with PLAUDIT_HTTP__PORT.")
