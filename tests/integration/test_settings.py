"""Where settings come from: the environment, and the file `.env`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command import plaudit


def test_the_data_folder_may_be_in_the_home_folder(tmp_path: Path) -> None:
    shown = plaudit(tmp_path, "config", PLAUDIT_DATA="~/plaudit", HOME="/home/ann").stdout
    assert json.loads(shown)["data"] == "/home/ann/plaudit"
    told = plaudit(tmp_path, "config", code=2, PLAUDIT_DATA="~nobody-here/plaudit").stderr
    assert "PLAUDIT_DATA: Value error, ~nobody-here/plaudit can't be used" in told
    # An empty name is this folder itself, which nobody means.
    assert "PLAUDIT_DATA: Value error, it is empty" in plaudit(tmp_path, "up", code=2, PLAUDIT_DATA="").stderr


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"# f\xfcr uns\nPLAUDIT_HTTP__PORT=8123\n")
    for command in ("config", "up", "dlq list"):
        assert ".env: byte 4 is not UTF-8" in plaudit(tmp_path, *command.split(), code=2).stderr
    assert ".env: byte 4 is not UTF-8" in plaudit(tmp_path, "doctor", code=1).stdout


def test_a_misspelt_variable_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)  # as /tmp is: refused, once that has been told
    told = plaudit(tmp_path, "up", code=1, PLAUDIT_HTTP_PORT="9000", PLAUDIT_DATA="shared").stdout
    assert "Unknown variables: PLAUDIT_HTTP_PORT. They have no effect" in told
