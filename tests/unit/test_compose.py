"""docker-compose.yml agrees with the program and with docs/operations.md; tests/stack runs it."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from devservers.mongo import mongod_binary
from plaudit.config import Settings
from tests.stack.test_backup import REPLAYED
from tests.support.documents import PAGES
from tests.support.variables import variables
from tests.support.yaml_text import yaml_in

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml_in((ROOT / "docker-compose.yml").read_text())["services"]
DOCS = (ROOT / "docs" / "operations.md").read_text()
IMAGE = "plaudit:local"


@pytest.mark.parametrize("client", [["docker", "compose"], ["docker-compose"]], ids=" ".join)
def test_compose_accepts_the_file(client: list[str]) -> None:
    if shutil.which(client[0]) is None or subprocess.run([*client, "version"], capture_output=True).returncode:
        pytest.skip(f"{' '.join(client)} isn't installed")
    checked = subprocess.run([*client, "config"], cwd=ROOT, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    shown = yaml_in(checked.stdout)["services"]
    assert shown["api"]["environment"]["PLAUDIT_KAFKA__BOOTSTRAP_SERVERS"] == "kafka:9092"


@pytest.mark.parametrize("name", SERVICES)
def test_services_have_limits_and_health_checks(name: str) -> None:
    service = SERVICES[name]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    if service["image"] == IMAGE:
        assert "HEALTHCHECK" in (ROOT / "Dockerfile").read_text()
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    else:
        assert service["healthcheck"]["test"]


def test_environment_has_known_variables_and_no_secrets() -> None:
    configured = {name for service in SERVICES.values() if service["image"] == IMAGE for name in service["environment"]}
    known = dict(variables(Settings))
    # The address has no password: only the containers can reach the database.
    assert {name for name in configured if known[name]} == {"PLAUDIT_MONGO__URI"}
    assert "@" not in SERVICES["api"]["environment"]["PLAUDIT_MONGO__URI"]


def test_api_allows_its_container_name_as_host() -> None:
    assert SERVICES["api"]["environment"]["PLAUDIT_HTTP__ALLOWED_HOSTS"] == '["api"]'


def test_doctor_containers_have_the_image_volume() -> None:
    """It is run in the container of any process; the mailer's is the only one with the mail server's settings."""
    for name in ("api", "worker", "scheduler", "mailer"):
        assert SERVICES[name]["volumes"] == ["images:/var/lib/plaudit/images"]
    assert [name for name, service in SERVICES.items() if "PLAUDIT_SMTP__HOST" in service.get("environment", {})] == [
        "mailer"
    ]


def test_only_one_service_builds_the_image() -> None:
    assert [name for name, service in SERVICES.items() if "build" in service] == ["init"]


def test_logs_of_every_container_are_rotated() -> None:
    kept = {"driver": "json-file", "options": {"max-size": "20m", "max-file": "5"}}
    assert {name: service.get("logging") for name, service in SERVICES.items()} == dict.fromkeys(SERVICES, kept)


def test_server_versions_match_the_tests() -> None:
    (kafka,) = re.findall(r"<kafka.version>(.+)</kafka.version>", (ROOT / "devservers" / "pom.xml").read_text())
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{kafka}"
    shown = subprocess.run([mongod_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    (mongod,) = re.findall(r"db version v(\d+\.\d+)\.", shown)
    assert SERVICES["mongo"]["image"] == f"mongo:{mongod}"


def test_docs_match_images_and_running_services() -> None:
    assert set(re.findall(r"\b(?:mongo|apache/kafka):[\w.]+", DOCS)) == {SERVICES["mongo"]["image"]}
    # Except for replays of single topics while the service is down.
    run = re.compile(r"(compose|docker-compose) run\b(?! --rm worker worker --only)")
    assert not [page.name for page in PAGES if run.search(page.read_text())]


def test_restore_replays_every_command_topic() -> None:
    (topics,) = re.findall(r"for topic in (.+); do", DOCS)
    assert set(topics.split()) == REPLAYED
