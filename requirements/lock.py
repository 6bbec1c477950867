"""Update the lock files: exact versions and hashes, no addresses. Run by `make lock`."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OPTIONS = [
    "--universal",
    *("--python-version", "3.11"),
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-header",
    "--no-annotate",
    "--quiet",
]


def compile_lock(output: str, *inputs: str) -> None:
    """Resolve the inputs and write one lock file."""
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "pip", "compile", *OPTIONS, *inputs, "--output-file", str(HERE / output)]
    subprocess.run(command, cwd=HERE.parent, check=True)  # noqa: S603


RUN = ("--extra", "embedded", "--group", "build")
AS_IN_RUN = ("-c", "requirements/run.lock")

compile_lock("bootstrap.lock", "requirements/bootstrap.in")
compile_lock("run.lock", "pyproject.toml", *RUN)
compile_lock("build.lock", "--group", "build", *AS_IN_RUN)
compile_lock("service.lock", "pyproject.toml", *AS_IN_RUN)
compile_lock("release.lock", "--group", "release")
compile_lock("dev.lock", "pyproject.toml", *RUN, "--group", "dev", *AS_IN_RUN)
compile_lock("bench.lock", "pyproject.toml", *RUN, "--group", "dev", "--group", "bench", "-c", "requirements/dev.lock")
compile_lock(
    "mutants.lock", "pyproject.toml", *RUN, "--group", "dev", "--group", "mutants", "-c", "requirements/dev.lock"
)
compile_lock("peer.lock", "pyproject.toml", "--group", "peer")
