"""The Java that Kafka runs on."""

import os
import re
import shutil
from pathlib import Path

from devservers.child import run
from devservers.errors import MissingPartError

_OLDEST = 17
_TIMEOUT_S = 60.0
_ADVICE = f"Install Java {_OLDEST} or later (`apt-get install openjdk-17-jre-headless`), or set JAVA_HOME to it."


async def find_java() -> tuple[Path, str]:
    """The Java of JAVA_HOME, else that on the PATH, and its own description of its version and build.

    Raises MissingPartError when it is missing or too old.
    """
    binary = _binary()
    exit_code, output = await run([binary, "-version"], timeout_s=_TIMEOUT_S)
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if exit_code != 0 or version is None:
        raise MissingPartError(f"{binary} doesn't tell its version: {output or 'no output'}. {_ADVICE}")
    if int(version[1]) < _OLDEST:
        raise MissingPartError(f"{binary} is Java {version[1]}, too old for Kafka. {_ADVICE}")
    return binary, _build(output)


def _build(output: str) -> str:
    """Version and build, without the mode that options from the environment may have set."""
    return "\n".join(re.findall(r'^.*(?:version "|\(build )[^,)\n]+', output, re.MULTILINE))


def _binary() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        binary = Path(home) / "bin" / "java"
        if not os.access(binary, os.X_OK):
            raise MissingPartError(f"JAVA_HOME is {home}, which has no bin/java. {_ADVICE}")
        return binary
    if (found := shutil.which("java")) is None:
        raise MissingPartError(f"Java is missing. {_ADVICE}")
    return Path(found)
