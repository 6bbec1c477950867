"""Fixtures of tests that start real servers as child processes."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from devservers.errors import MissingPartError
from devservers.kafka_setup import set_up_kafka
from tests.support.processes import Marked


@pytest.fixture
def progress() -> list[str]:
    """Progress messages: `append` is passed to servers as their `report`."""
    return []


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose name needs quoting in most places, as a user's may. Removed afterwards, because it is
    large."""
    data = tmp_path / "Daten für 100%, é"
    data.mkdir()
    yield data
    shutil.rmtree(data)


@pytest.fixture
async def marked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Marked]:
    """Tracks the processes that the test starts; none may be left at the end."""
    marked = Marked()
    for name, value in marked.environment.items():
        monkeypatch.setenv(name, value)
    yield marked
    await marked.gone()


@pytest.fixture
async def kafka_can_run() -> None:
    """Downloads Apache Kafka if it isn't cached; skips where it can't run."""
    try:
        await set_up_kafka(print)
    except MissingPartError as missing:
        pytest.skip(f"Apache Kafka can't run here. {missing}")


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Empties PATH and the user's cache. Call it to put shell scripts on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    path = f"{folder}:/usr/bin:/bin"
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def provide(**scripts: str) -> None:
        for name, body in scripts.items():
            script = folder / name
            script.write_text(f"#!/bin/sh\nPATH={path}\n{body}\n")
            script.chmod(0o755)

    return provide
