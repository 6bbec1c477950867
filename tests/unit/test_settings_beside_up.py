"""Addresses of a running `plaudit up` in combination with other configured servers."""

import fcntl
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from plaudit.config import ConfigurationError, Settings
from plaudit.http_settings import HttpSettings
from plaudit.server_settings import KafkaSettings, MongoSettings

MONGO = "mongodb://plaudit:pass-of-mongo@127.0.0.1:1/?replicaSet=plaudit"
KAFKA = "127.0.0.1:2"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The folder of a `plaudit up` that runs until the end of the test."""
    servers = {"http": "http://127.0.0.1:8123", "kafka": KAFKA, "mongo": MONGO, "database": "plaudit"}
    (tmp_path / "endpoints.json").write_text(json.dumps(servers))
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield tmp_path


def settings(
    data: Path, *, mongo: str | None = None, kafka: str | None = None, http: HttpSettings | None = None
) -> Settings:
    return Settings(
        _env_file=None,
        data=data,
        mongo=MongoSettings(uri=SecretStr(mongo) if mongo else None),
        kafka=KafkaSettings(bootstrap_servers=kafka),
        http=http or HttpSettings(),
    )


@pytest.mark.parametrize(
    ("variable", "mongo", "kafka", "read"),
    [
        ("MONGO__URI", "mongodb://real.example", None, Settings.kafka_connection),
        ("MONGO__URI", "mongodb://real.example", None, Settings.http_address),
        ("KAFKA__BOOTSTRAP_SERVERS", None, "real.example:9092", Settings.mongo_uri),
        ("KAFKA__BOOTSTRAP_SERVERS", MONGO, "real.example:9092", Settings.http_address),
    ],
)
def test_one_server_other_than_the_running_ones_is_refused(
    data: Path, variable: str, mongo: str | None, kafka: str | None, read: Callable[[Settings], object]
) -> None:
    with pytest.raises(ConfigurationError, match=f"PLAUDIT_{variable} is not the server of") as caught:
        read(settings(data, mongo=mongo, kafka=kafka))
    assert "pass-of" not in str(caught.value)


def test_running_servers_may_be_configured(data: Path) -> None:
    for each in (settings(data), settings(data, mongo=MONGO), settings(data, kafka=KAFKA)):
        assert each.mongo_uri() == MONGO
        assert each.kafka_connection().bootstrap_servers == KAFKA
        assert each.http_address() == "http://127.0.0.1:8123"


def test_fully_configured_servers_are_used(data: Path) -> None:
    others = settings(data, mongo="mongodb://real.example", kafka="real.example:9092")
    assert others.mongo_uri() == "mongodb://real.example"
    assert others.kafka_connection().bootstrap_servers == "real.example:9092"


@pytest.mark.parametrize("mongo", [None, MONGO])
def test_another_database_on_the_running_server_is_refused(data: Path, mongo: str | None) -> None:
    named = SecretStr(mongo) if mongo else None
    here = settings(data, mongo=mongo).model_copy(update={"mongo": MongoSettings(uri=named, database="other")})
    with pytest.raises(ConfigurationError, match=r"PLAUDIT_MONGO__DATABASE is other, but .* uses the database plaudit"):
        here.mongo_database()
    there = json.loads((data / "endpoints.json").read_text())
    (data / "endpoints.json").write_text(json.dumps({**there, "database": "shop"}))
    assert settings(data, mongo=mongo).mongo_database() == "shop"


def test_another_database_on_fully_configured_servers_is_used(data: Path) -> None:
    chosen = MongoSettings(uri=SecretStr(MONGO), database="other")
    assert settings(data, kafka=KAFKA).model_copy(update={"mongo": chosen}).mongo_database() == "other"


def test_another_host_than_the_running_one_is_refused(data: Path) -> None:
    assert settings(data, http=HttpSettings(host="127.0.0.1")).http_address() == "http://127.0.0.1:8123"
    with pytest.raises(ConfigurationError, match=r"PLAUDIT_HTTP__HOST is real\.example, but .* listens on"):
        settings(data, http=HttpSettings(host="real.example")).http_address()
