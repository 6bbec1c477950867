"""Write the lock files anew: exact versions and hashes, no addresses. Run by `make lock`."""

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


compile_lock("bootstrap.lock", "requirements/bootstrap.in")
compile_lock("run.lock", "pyproject.toml", "--extra", "embedded", "--group", "build")
compile_lock("build.lock", "--group", "build", "-c", "requirements/run.lock")
compile_lock("service.lock", "pyproject.toml", "-c", "requirements/run.lock")
compile_lock("dev.lock", "pyproject.toml", "--extra", "embedded", "--group", "build", "--group", "dev", "-c", "requirements/run.lock")
