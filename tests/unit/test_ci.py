"""`.ci/run` needs Kafka where Java and Maven are installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.documents import ROOT

NEEDED = ("bash", "cat", "dirname", "env", "sleep", "timeout", "true")


@pytest.mark.parametrize(("installed", "broker"), [(("java", "mvn"), "kafka"), (("java",), ""), (("mvn",), "")])
def test_tests_run_on_kafka_if_java_and_maven_are_installed(
    tmp_path: Path, installed: tuple[str, ...], broker: str
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    programs, environment = tmp_path / "programs", tmp_path / ".venv/bin"
    for folder in (programs, environment):
        folder.mkdir(parents=True)
    for name in NEEDED:
        (programs / name).symlink_to(str(shutil.which(name)))
    # An installed Helm isn't built, and without apt-get nothing is installed.
    stubs = {"make": 'echo "$1 on ${BROKER-}"', "helm": "echo v4.0.0", **dict.fromkeys(installed, ":")}
    for path, content in (
        *((programs / name, content) for name, content in stubs.items()),
        *((environment / name, ":") for name in ("python", "pytest")),
    ):
        path.write_text(f"#!/bin/sh\n{content}\n")
        path.chmod(0o700)
    variables = {name: value for name, value in os.environ.items() if name != "BROKER"}
    output = subprocess.check_output([tmp_path / ".ci/run"], env={**variables, "PATH": str(programs)}, text=True)
    assert output.splitlines()[-2:] == [f"test on {broker}", f"test-more on {broker}"]
