"""Source trees of this version and the one before, each run by an interpreter with its locked dependencies."""

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.targeting import VARIABLE

TREE: Final = Path(__file__).parents[2]
LOCK: Final = Path("requirements", "run.lock")
ROOMS: Final = ("domain", "storage", "messaging", "consumers", "api", "scheduler", "plaudit")
"""Packages of the service."""
SHARED: Final = ("storage", "messaging")
"""Packages with the formats that versions share: documents and messages."""

PLACE: Final = "code of "
"""Prefix of the first line that a process prints; the folder of its packages follows."""

_LAUNCH: Final = f"""
import os
from importlib.util import find_spec
from pathlib import Path
places = {{str(Path(find_spec(room).origin).parents[1]) for room in {ROOMS!r}}}
print({PLACE!r} + " and ".join(sorted(places)), flush=True)
if {VARIABLE!r} in os.environ:
    from tests.support.targeting import listen
    listen()
from plaudit.cli.main import main
main()
"""


class NoVersionBeforeError(Exception):
    """There is no version before; the message gives the reason."""


@dataclass(frozen=True)
class Version:
    """A source tree of the service, named by its revision."""

    name: str
    tree: Path
    python: Path

    def command(self, *arguments: str) -> list[str]:
        """The command line of `plaudit <arguments>` of this tree. Its output begins with `place`."""
        return [str(self.python), "-c", _LAUNCH, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that put this tree before the installed one."""
        return {"PYTHONPATH": str(self.tree)}

    @property
    def place(self) -> str:
        """The first line of the output of its processes."""
        return f"{PLACE}{self.tree}"

    @property
    def migrates(self) -> bool:
        """True if it has the command `plaudit migrate`."""
        return (self.tree / "plaudit" / "tools" / "migrate.py").exists()


def this_version() -> Version:
    """The tree that this suite belongs to."""
    return Version("this", TREE, Path(sys.executable))


def version_before(wanted: str | None, folder: Path) -> Version:
    """An earlier version: an existing tree, a revision extracted into `folder`, or the choice of `revision_before`.

    Raises NoVersionBeforeError.
    """
    if wanted and Path(wanted).is_dir():
        tree, name = Path(wanted).resolve(), wanted
    else:
        name = revision_of(wanted) if wanted else revision_before()
        tree = folder.resolve() / f"version-{name}"
        tree.mkdir(parents=True)
        archive = folder / f"version-{name}.tar"
        _git("archive", f"--output={archive.resolve()}", name)
        with tarfile.open(archive) as packed:
            packed.extractall(tree, filter="data")
        archive.unlink()
        # Compile once: with PYTHONDONTWRITEBYTECODE every process would compile again.
        rooms = [tree / room for room in ROOMS]
        subprocess.run([sys.executable, "-m", "compileall", "-q", *rooms], check=False, capture_output=True)
    is_like_this = (tree / LOCK).read_bytes() == (TREE / LOCK).read_bytes()
    return Version(name, tree, Path(sys.executable) if is_like_this else _environment(tree, folder / f"venv-{name}"))


def revision_before() -> str:
    """The newest release before this one; without any, the commit before the last change of `SHARED`.

    That is HEAD while such a change isn't committed. Raises NoVersionBeforeError.
    """
    try:
        return revision_of(_git("describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^"))
    except NoVersionBeforeError:
        pass
    if _git("status", "--porcelain", "--", *SHARED):
        return revision_of("HEAD")
    newest = _git("log", "-1", "--first-parent", "--format=%H", "--", *SHARED)
    return revision_of(f"{newest}^")


def revision_of(name: str) -> str:
    """The short id of a commit. Raises NoVersionBeforeError."""
    return _git("rev-parse", "--short", "--verify", f"{name}^{{commit}}")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=TREE, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise NoVersionBeforeError("earlier versions can't be found: git isn't installed") from None
    except subprocess.CalledProcessError as error:
        output = error.stderr.strip().partition("\n")[0]
        raise NoVersionBeforeError(f"no earlier version in this clone, which may be shallow: {output}") from None
    return done.stdout.strip()


def _environment(tree: Path, folder: Path) -> Path:
    """The interpreter of a new environment with the locked dependencies of a tree. Raises NoVersionBeforeError."""
    uv, python = Path(sys.executable).with_name("uv"), folder / "bin" / "python"
    install: list[str | Path] = [uv, "pip", "install", "--quiet", f"--python={python}"]
    commands: tuple[list[str | Path], ...] = (
        [uv, "venv", "--quiet", f"--python={sys.executable}", folder],
        [*install, "--require-hashes", "-r", tree / LOCK],
        [*install, "--no-deps", "--no-build-isolation", "--editable", tree],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoVersionBeforeError(f"its locked dependencies can't be installed: {done.stderr.strip()[-500:]}")
    return python
