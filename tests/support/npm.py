"""Packages of npm, installed once into the user's cache by their lock files."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

_INSTALL_S: Final = 300


def installed(sources: Path, what: str) -> Path:
    """A copy of this folder with all that its package-lock.json names. Skips the test where that can't be had."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} for {what}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "plaudit"
    digest = sha256(b"".join(file.read_bytes() for file in sorted(sources.iterdir()) if file.is_file()))
    folder = cache / f"{sources.name}-{digest.hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(sources, partial)
            # Scripts of packages have no business here.
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            ended = subprocess.run(command, cwd=partial, capture_output=True, text=True, timeout=_INSTALL_S)
            if ended.returncode != 0:
                pytest.skip(f"npm can't install {what}: {ended.stderr[-500:]}")
            partial.rename(folder)
    return folder
