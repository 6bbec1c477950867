"""Sources of settings: environment variables and the file `.env`."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import plaudit

NOBODY = 65534


@pytest.fixture
def foreign_data(tmp_path: Path) -> Iterator[list[str]]:
    """Create a data folder of another user; yields the start of a command that can't read it, even if run by root."""
    command = [sys.executable, "-m", "plaudit"]
    data = tmp_path / ".plaudit"
    data.mkdir()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can read every folder, and setpriv is missing to drop that capability")
        os.chown(data, NOBODY, NOBODY)
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    data.chmod(0o000)
    yield command
    data.chmod(0o700)


@pytest.mark.long
@pytest.mark.parametrize("command", ["config", "demo", "api", "doctor", "dlq list"])
def test_unreadable_data_folder_is_reported(foreign_data: list[str], tmp_path: Path, command: str) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PLAUDIT_")}
    result = subprocess.run([*foreign_data, *command.split()], cwd=tmp_path, env=bare, capture_output=True, text=True)
    code = 1 if command == "doctor" else 2
    assert (result.returncode, "Traceback" in result.stderr) == (code, False), result.stderr
    output = " ".join((result.stdout + result.stderr).split())
    assert ".plaudit/endpoints.json can't be read (Permission denied)" in output


@pytest.mark.long
def test_data_folder_may_be_relative_to_home(tmp_path: Path) -> None:
    shown = plaudit(tmp_path, "config", PLAUDIT_DATA="~/plaudit", HOME="/home/ann").stdout
    assert json.loads(shown)["data"] == "/home/ann/plaudit"
    stderr = plaudit(tmp_path, "config", code=2, PLAUDIT_DATA="~nobody-here/plaudit").stderr
    assert "PLAUDIT_DATA: ~nobody-here/plaudit can't be used" in stderr
    # An empty name would mean the current folder, which is never intended.
    assert "PLAUDIT_DATA: must not be empty" in plaudit(tmp_path, "up", code=2, PLAUDIT_DATA="").stderr


def test_empty_file_names_are_ignored(tmp_path: Path) -> None:
    names = [
        "AUTH__JWT__PUBLIC_KEY_FILE",
        "ENTITY_TYPES_FILE",
        "KAFKA__TLS_CA_FILE",
        "SMTP__TLS_CA_FILE",
        "TRACES__FILE",
    ]
    shown = json.loads(plaudit(tmp_path, "config", code=0, **{f"PLAUDIT_{name}": "" for name in names}).stdout)
    for name in names:
        found = shown
        for part in name.lower().split("__"):
            found = found[part]
        assert found is None


@pytest.mark.long
def test_env_file_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"# f\xfcr uns\nPLAUDIT_HTTP__PORT=8123\n")
    for command in ("config", "up", "dlq list"):
        assert (
            ".env in the current folder can't be read: byte 4 is not UTF-8"
            in plaudit(tmp_path, *command.split(), code=2).stderr
        )
    assert ".env in the current folder can't be read: byte 4 is not UTF-8" in plaudit(tmp_path, "doctor", code=1).stdout


@pytest.mark.long
def test_invalid_line_of_env_file_is_reported(tmp_path: Path) -> None:
    for number, lines in ((2, 'A=1\nPLAUDIT_MONGO__DATABASE="shop\nB=2\n'), (3, "# words\n\ngarbage line\n")):
        (tmp_path / ".env").write_text(lines)
        message = f".env, line {number}: must be NAME=value, with all quotes closed."
        for command in ("config", "up"):
            assert message in plaudit(tmp_path, command, code=2).stderr
        assert message in plaudit(tmp_path, "doctor", code=1).stdout
    (tmp_path / ".env").write_text("# words\n\nexport A=1\nB\nC='two\nlines'\nPLAUDIT_HTTP__PORT=8123\n")
    assert json.loads(plaudit(tmp_path, "config", code=0).stdout)["http"]["port"] == 8123


@pytest.mark.parametrize("name", ["admin", "Config", "local"])
def test_system_databases_are_refused(tmp_path: Path, name: str) -> None:
    stderr = plaudit(tmp_path, "config", code=2, PLAUDIT_MONGO__DATABASE=name).stderr
    assert "PLAUDIT_MONGO__DATABASE: is a system database of MongoDB" in stderr


def test_misspelt_variable_is_reported(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)  # like /tmp: refused, after the warning under test
    stdout = plaudit(tmp_path, "up", code=2, PLAUDIT_HTTP_PORT="9000", PLAUDIT_DATA="shared").stdout
    assert "Unknown variables: PLAUDIT_HTTP_PORT. They have no effect" in stdout


@pytest.mark.parametrize("command", ["api", "worker", "init"])
def test_process_names_misspelt_variables_before_it_misses_the_setting(tmp_path: Path, command: str) -> None:
    stderr = plaudit(tmp_path, command, code=1, PLAUDIT_MONGO__URL="mongodb://127.0.0.1:1").stderr
    before, named, after = stderr.partition("PLAUDIT_MONGO__URL")
    assert ("unknown variables, which have no effect" in before, "PLAUDIT_MONGO__URI" in after) == (True, True), stderr
    assert named
