"""`plaudit doctor` on the configuration."""

import os
from pathlib import Path

import pytest

from domain.findings import Level
from plaudit.config import Settings
from plaudit.tools.doctor.configuration import check_configuration


def test_misspelt_settings_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("PLAUDIT_")]:  # set for the test run
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PLAUDIT_MONGO__URL", "mongodb://localhost")
    monkeypatch.setenv("PLAUDIT_CONSOLE__OIDC__PARAMETERS__AUDIENCE", "reviews")
    (tmp_path / ".env").write_text("plaudit_log__lebel=debug\nPLAUDIT_HTTP__PORT=9000\nOTHER=1\n")
    (found,) = [each for each in check_configuration(Settings()) if "unknown variables" in each.text]
    assert found.text == "unknown variables PLAUDIT_LOG__LEBEL, PLAUDIT_MONGO__URL"


def test_refused_oidc_settings_are_found() -> None:
    at_issuer = {"authorize_url": "http://issuer.test/authorize", "token_url": "https://issuer.test/token"}
    settings = Settings.model_validate(
        {
            "auth": {
                "mode": "jwt",
                "jwt": {"issuer": "https://issuer.test", "audience": "plaudit", "jwks_url": "https://issuer.test/keys"},
            },
            "console": {"oidc": {"client_id": "console", **at_issuer}},
        }
    )
    (found,) = [each for each in check_configuration(settings) if "OIDC" in each.text]
    assert (found.level, found.advice) == (Level.FAIL, "Correct the setting: the API doesn't start until then.")
    assert found.text.startswith("PLAUDIT_CONSOLE__OIDC__AUTHORIZE_URL: must be https")
