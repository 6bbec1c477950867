"""npm packages, installed once into the user's cache."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

_INSTALL_S = 300


def npm_installed(name: str, files: Sequence[Path], *, needed_for: str) -> Path:
    """A folder with these files, one of them `package-lock.json`, and the packages locked there.

    Skips the test if they can't be installed.
    """
    missing = [program for program in ("node", "npm") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)} for {needed_for}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "plaudit"
    digest = sha256(b"".join(file.read_bytes() for file in sorted(files)))
    folder = cache / f"{name}-{digest.hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for file in files:
                shutil.copy(file, partial)
            # Install scripts of packages aren't needed.
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            try:
                installed = subprocess.run(command, cwd=partial, capture_output=True, text=True, timeout=_INSTALL_S)
            except subprocess.TimeoutExpired:
                pytest.skip(
                    f"npm didn't install {needed_for} within {_INSTALL_S} s: its registry may be slow or unavailable"
                )
            if installed.returncode != 0:
                pytest.skip(f"npm can't install {needed_for}: {installed.stderr[-500:]}")
            partial.rename(folder)
    return folder
