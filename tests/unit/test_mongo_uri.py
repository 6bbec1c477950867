"""A password of MongoDB is not shown, whatever characters in it aren't percent-encoded."""

import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from plaudit.config import ConfigurationError, Settings
from plaudit.credentials import mongo_hosts
from plaudit.processes.connections import connected_database
from plaudit.server_settings import MongoSettings

PASSWORDS = st.text(st.sampled_from("S3C789/#?@:.%,[]=&"), min_size=6, max_size=30)
SHOWN = 6
"""A piece of this length gives a password away."""


def wrong_uri(uri: str) -> str:
    """What is reported about a URI; empty if it is usable."""
    settings = Settings(_env_file=None, data=Path(), mongo=MongoSettings(uri=SecretStr(uri)))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            connected_database(settings, timeout=1)
        except ConfigurationError as error:
            return f"{error} {error.__cause__}"
    return " ".join(str(each.message) for each in warned)


@given(PASSWORDS, st.sampled_from(["one", "one.example:1,two.example:2"]), st.sampled_from(["", "/", "/db?w=1"]))
def test_no_piece_of_any_password_is_shown(password: str, hosts: str, rest: str) -> None:
    uri = f"mongodb://plaudit:{password}@{hosts}{rest}"
    pieces = {password[start : start + SHOWN] for start in range(len(password) - SHOWN + 1)}
    shown = f"{wrong_uri(uri)} {mongo_hosts(uri)}"
    assert [piece for piece in pieces if piece in shown] == []
    assert mongo_hosts(uri) in (hosts, None)


@pytest.mark.parametrize("password", ["secret/key", "12345?secret", "12345/secret", "secret@key", "secret:key"])
def test_unescaped_password_is_refused_by_name(password: str) -> None:
    said = wrong_uri(f"mongodb://plaudit:{password}@mongo:27017/?replicaSet=rs")
    assert "PLAUDIT_MONGO__URI" in said
    assert "percent-encode" in said


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://one:1,two:2/?replicaSet=rs",
        "mongodb://plaudit:p%40ss%2Fw%3Ard@one:1,two:2/db?appName=a%40b",
        "mongodb://plaudit:sec#ret@one:1,two:2",
    ],
)
def test_hosts_of_usable_uri(uri: str) -> None:
    assert (wrong_uri(uri), mongo_hosts(uri)) == ("", "one:1,two:2")


def test_problem_of_an_option_is_reported() -> None:
    assert "missing.pem" in wrong_uri("mongodb://plaudit:secret@one/?tls=true&tlsCAFile=missing.pem")
