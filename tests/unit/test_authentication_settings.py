"""Authentication settings with which the API starts or refuses to start."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from domain.origins import is_loopback
from plaudit.auth_settings import AuthSettings, JwtSettings
from plaudit.config import ConfigurationError, Settings
from plaudit.http_settings import HttpSettings
from plaudit.processes.authentication import check_authentication
from tests.support.issuer import ec_key, pem

JWT: dict[str, Any] = {"issuer": "https://issuer.test", "audience": "plaudit"}


def _settings(host: str = "0.0.0.0", mode: Any = None, **jwt: Any) -> Settings:  # noqa: S104 - never listened on
    auth = AuthSettings(mode=mode, jwt=JwtSettings(**jwt))
    return Settings(http=HttpSettings(host=host), auth=auth)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_address_needs_no_authentication(host: str) -> None:
    assert is_loopback(host)
    check_authentication(_settings(host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.2", "example.com", "localhost.example.com"])  # noqa: S104
def test_public_address_needs_an_explicit_mode(host: str) -> None:
    with pytest.raises(ConfigurationError, match="PLAUDIT_AUTH__MODE"):
        check_authentication(_settings(host))
    check_authentication(_settings(host, "none"))
    check_authentication(_settings(host, "api_key"))


def test_jwt_settings_need_an_explicit_mode() -> None:
    # As behind a proxy on the same machine, if the mode was forgotten.
    for given in (JWT, {"jwks_url": "https://issuer.test/keys"}, {"public_key_file": "key.pem"}):
        with pytest.raises(ConfigurationError, match="PLAUDIT_AUTH__MODE is not set: everyone has access"):
            check_authentication(_settings("127.0.0.1", **given))
        check_authentication(_settings("127.0.0.1", "none", **given))


def test_misspelt_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAUDIT_AUTH_MODE", "api_key")
    with pytest.raises(ConfigurationError, match="PLAUDIT_AUTH_MODE is no setting, and PLAUDIT_AUTH__MODE is not set"):
        check_authentication(_settings("127.0.0.1"))
    check_authentication(_settings("127.0.0.1", "none"))


def test_several_misspelt_variables_are_named_in_the_plural(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLAUDIT_AUTH_MODE", "PLAUDIT_AUTH__MODUS"):
        monkeypatch.setenv(name, "api_key")
    with pytest.raises(ConfigurationError, match=r"_MODE, PLAUDIT_AUTH__MODUS are no settings, .* Correct the names"):
        check_authentication(_settings("127.0.0.1"))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "ISSUER"),
        ({"issuer": "https://issuer.test"}, "AUDIENCE"),
        (JWT, "JWKS_URL"),
        ({**JWT, "jwks_url": "https://issuer.test/keys", "public_key_file": "key.pem"}, "not both"),
        ({**JWT, "jwks_url": "http://issuer.test/keys"}, "must be https"),
        ({**JWT, "public_key_file": "/nowhere/key.pem"}, "PUBLIC_KEY_FILE"),
    ],
)
def test_incomplete_jwt_settings_are_refused(given: dict[str, Any], names: str) -> None:
    with pytest.raises(ConfigurationError, match=names):
        check_authentication(_settings("127.0.0.1", "jwt", **given))


def test_complete_jwt_settings_are_accepted(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(pem(ec_key()))
    check_authentication(_settings(mode="jwt", **JWT, public_key_file=file))
    check_authentication(_settings(mode="jwt", **JWT, jwks_url="https://issuer.test/keys"))
    check_authentication(_settings(mode="jwt", **JWT, jwks_url="http://[::1]:8000/keys"))


@pytest.mark.parametrize("algorithms", [["none"], ["HS256"], ["RS256", "HS512"], []])
def test_only_asymmetric_algorithms_are_accepted(algorithms: list[str]) -> None:
    with pytest.raises(ValidationError):
        JwtSettings(algorithms=tuple(algorithms))
