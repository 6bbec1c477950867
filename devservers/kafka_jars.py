"""Apache Kafka's jars, fetched once by Maven into the user's cache folder."""

import os
import re
import shutil
from pathlib import Path

from devservers.child import run
from devservers.errors import EmbeddedServerError, MissingPartError, Report
from devservers.lock import FolderLock

_POM = Path(__file__).with_name("pom.xml")
_TIMEOUT_S = 1_200.0


def kafka_version() -> str:
    """The version in pom.xml."""
    version = re.search(r"<kafka\.version>(.+)</kafka\.version>", _POM.read_text())
    if version is None:
        raise ValueError(f"{_POM} names no kafka.version")
    return version[1]


class KafkaJars:
    """The folder of the jars: complete, or missing."""

    def __init__(self, cache: Path | None = None) -> None:
        """`cache` is the user's cache folder, by default that of the XDG specification."""
        cache = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = cache.absolute() / "plaudit" / f"kafka-{kafka_version()}"

    @property
    def cached(self) -> bool:
        """True if the jars are there."""
        return self.folder.is_dir()

    @property
    def class_path(self) -> str:
        """All jars, always in the same order: the class archive depends on it."""
        return ":".join(str(jar) for jar in sorted(self.folder.glob("*.jar")))

    def lock(self) -> FolderLock:
        """The lock for fetching and preparing, not yet acquired. Raises EmbeddedServerError."""
        try:
            return FolderLock(self.folder.with_name(f"{self.folder.name}.lock"))
        except EmbeddedServerError as error:
            raise EmbeddedServerError(f"{error} Set XDG_CACHE_HOME to choose another cache folder.") from error

    async def fetch(self, report: Report, lock: FolderLock) -> None:
        """Fetch the jars; the caller holds the lock. Raises EmbeddedServerError with Maven's output."""
        maven = find_maven()
        report(f"Downloading Apache Kafka {kafka_version()} with Maven (once, about 45 MB)")
        partial = self.folder.with_name(f"{self.folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # left by an interrupted fetch
        exit_code, output = await run(
            [
                *(maven, "--batch-mode", "--quiet", "--strict-checksums", "-Dstyle.color=never", "--file", _POM),
                *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"),
            ],
            timeout_s=_TIMEOUT_S,
            keep_open=(lock.descriptor,),
        )
        if exit_code != 0 or not any(partial.glob(f"kafka_*-{kafka_version()}.jar")):
            raise EmbeddedServerError(
                "Maven couldn't download Kafka. Check the network and Maven's settings, or use a broker in memory "
                f"for a first look: `make up BROKER=tansu` (PLAUDIT_BROKER=tansu). Maven's output:\n{output}"
            )
        partial.rename(self.folder)


def find_maven() -> Path:
    """The `mvn` on the PATH; raises MissingPartError when there is none."""
    if (found := shutil.which("mvn")) is None:
        raise MissingPartError("Maven, which downloads Kafka, is missing. Install it (`apt-get install maven`).")
    return Path(found)
