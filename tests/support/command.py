"""A single `plaudit` command."""

import os
import subprocess
from pathlib import Path

from tests.support.forks import run_forked


def plaudit(folder: Path, *command: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with only this environment configured, and assert its exit code."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PLAUDIT_")}
    ended = run_forked(*command, environment={**bare, **environment}, folder=folder)
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return ended
