"""`make up` and `make demo`: options, defaults left to the environment, and an old, moved or incomplete Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not there")


def started(folder: Path, *words: str, **environment: str) -> list[str]:
    """The lines with the command that `make` runs and the settings it passes, in an up-to-date environment."""
    (folder / "bin").mkdir()
    program = folder / "bin/plaudit"
    program.write_text('#!/bin/sh\necho "plaudit $*"; env | grep ^PLAUDIT_ | sort\n')
    program.chmod(0o700)
    (folder / "bootstrap.stamp").write_text(f"{ROOT}\n")
    (folder / "run.stamp").touch()
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("PLAUDIT_", "MAKE"))}
    for name in ("PORT", "DATA", "BROKER", "FILL"):
        bare.pop(name, None)
    command = ["make", "--no-print-directory", f"VENV={folder}", *words]
    return subprocess.check_output(command, cwd=ROOT, env={**bare, **environment}, text=True).splitlines()


def test_folder_name_may_contain_spaces(tmp_path: Path) -> None:
    assert started(tmp_path, "up", "DATA=/srv/my data", "PORT=9000", "BROKER=tansu") == [
        "plaudit up",
        "PLAUDIT_BROKER=tansu",
        "PLAUDIT_DATA=/srv/my data",
        "PLAUDIT_HTTP__PORT=9000",
    ]


@pytest.mark.parametrize("data", ["/srv/o'brien", "/srv/cash$5 ${HOME} $(HOME)", '/srv/"a" `b`;c#d', "/srv/\\t"])
def test_folder_name_is_taken_as_typed(tmp_path: Path, data: str) -> None:
    assert started(tmp_path, "demo", f"DATA={data}") == ["plaudit demo", f"PLAUDIT_DATA={data}"]


@pytest.mark.parametrize("command", ["up", "demo"])
def test_unset_options_are_left_to_environment_and_its_file(tmp_path: Path, command: str) -> None:
    others = {"PORT": "3000", "DATA": "/srv/data", "BROKER": "rabbit", "FILL": "9"}
    assert started(tmp_path, command, **others) == [f"plaudit {command}"]


def test_options_override_environment(tmp_path: Path) -> None:
    assert started(tmp_path, "demo", "FILL=5", "PORT=9000", PLAUDIT_HTTP__PORT="9001") == [
        "plaudit demo --fill 5",
        "PLAUDIT_HTTP__PORT=9000",
    ]


def test_old_python_is_rejected_before_anything_is_created(tmp_path: Path) -> None:
    old = tmp_path / "python"
    # Called with `-c` and a program, as the Makefile does.
    claim = "import sys; sys.version_info = (3, 10, 13); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{claim}' \"$2\"\n")
    old.chmod(0o700)
    command = ["make", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}", "up"]
    ended = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert f"{old} is Python 3.10, but Plaudit needs 3.11 or later" in ended.stderr
    assert ended.returncode != 0
    assert not (tmp_path / "venv").exists()


def test_moved_or_copied_environment_is_recreated(tmp_path: Path) -> None:
    calls, python, venv, checkout = (tmp_path / name for name in ("calls", "python", "venv", 'cash$5 "a" `b`'))
    (checkout / "requirements").mkdir(parents=True)
    (checkout / "requirements/bootstrap.lock").touch()
    python.write_text(f'#!/bin/sh\necho "$2" >> {calls}\n')
    python.chmod(0o700)
    venv.mkdir()
    stamp = venv / "bootstrap.stamp"
    command = ["make", f"--makefile={ROOT / 'Makefile'}", f"VENV={venv}", f"PYTHON={python}", str(stamp)]
    for made_in, made in (("/another/folder", 1), (checkout, 0)):
        calls.write_text("")
        stamp.write_text(f"{made_in}\n")
        subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
        assert calls.read_text().split().count("venv") == made
        assert stamp.read_text() == f"{checkout}\n"


def test_second_make_waits_and_uses_the_environment_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/bootstrap.lock").touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    python, go = tmp_path / "python", tmp_path / "go"
    os.mkfifo(go)
    python.write_text(f'#!/bin/sh\ncase "$2" in venv) mkdir .venv && read line < {go};; esac\n')
    python.chmod(0o700)
    command = ["make", "--no-print-directory", f"PYTHON={python}", ".venv/bootstrap.stamp"]
    with (
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as first,
        go.open("w") as gate,  # open once the first has begun
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as second,
    ):
        assert first.stdout is not None
        assert second.stdout is not None
        waits = second.stdout.readline()
        gate.write("\n")
        gate.close()
        said = (first.stdout.read(), waits + second.stdout.read())
    assert said == (
        "Setting up the virtual environment\n",
        "Waiting for another make that sets up the virtual environment\n",
    )
    assert (first.returncode, second.returncode) == (0, 0)


@pytest.mark.parametrize("end", ["exit 2", "kill -INT $PPID; exit 130"], ids=["failed", "interrupted"])
def test_environment_with_an_unfinished_installation_is_recreated(tmp_path: Path, end: str) -> None:
    (tmp_path / "bin").mkdir()
    installer = tmp_path / "bin/uv"
    installer.write_text(f"#!/bin/sh\n{end}\n")
    installer.chmod(0o700)
    (tmp_path / "bootstrap.stamp").write_text(f"{ROOT}\n")
    command = ["make", f"VENV={tmp_path}", str(tmp_path / "run.stamp")]
    ended = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert "repeat the command to make it anew" in ended.stderr
    assert ended.returncode != 0
    assert not (tmp_path / "run.stamp").exists()
    assert not (tmp_path / "bootstrap.stamp").exists()
