"""Set-up before the first start of Kafka: find Java, fetch Kafka's jars, and archive its classes.

The archive (class data sharing) has Kafka's classes in the JVM's memory format, and halves the time of a start. The
checkpoint of the run that made it is kept beside it: later runs copy it instead of having their folders formatted.
"""

import hashlib
import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from devservers.child import run
from devservers.errors import MissingPartError, Report
from devservers.kafka import CHECKPOINT, KafkaProcess, KafkaRuntime
from devservers.kafka_jars import KafkaJars, find_maven

_OLDEST_JAVA = 17
_VERSION_TIMEOUT_S = 60.0
_ADVICE = f"Install Java {_OLDEST_JAVA} or later (`apt-get install openjdk-17-jre-headless`), or set JAVA_HOME to it."


async def find_java() -> tuple[Path, str]:
    """The Java of JAVA_HOME, else that on the PATH, and its version and build.

    Raises MissingPartError if it is missing or too old.
    """
    binary = _java()
    exit_code, output = await run([binary, "-version"], timeout_s=_VERSION_TIMEOUT_S)
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if exit_code != 0 or version is None:
        raise MissingPartError(f"{binary} doesn't report its version: {output or 'no output'}. {_ADVICE}")
    if int(version[1]) < _OLDEST_JAVA:
        raise MissingPartError(f"{binary} is Java {version[1]}, too old for Kafka. {_ADVICE}")
    # Without the mode, which options in the environment may have changed.
    return binary, "\n".join(re.findall(r'^.*(?:version "|\(build )[^,)\n]+', output, re.MULTILINE))


def _java() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        binary = Path(home) / "bin" / "java"
        if not os.access(binary, os.X_OK):
            raise MissingPartError(f"JAVA_HOME is {home}, but that has no bin/java. {_ADVICE}")
        return binary
    if (found := shutil.which("java")) is None:
        raise MissingPartError(f"Java is missing. {_ADVICE}")
    return Path(found)


async def set_up_kafka(report: Report) -> KafkaRuntime:
    """Find Java, and fetch and prepare what the user's cache lacks; one process at a time does that.

    Raises MissingPartError if Java or Maven is missing, EmbeddedServerError if Maven fails.
    """
    java, build = await find_java()
    jars = KafkaJars()
    if not jars.cached:
        find_maven()
    # A JVM can't use the archive of another build.
    archive = jars.folder / f"{hashlib.sha256(build.encode()).hexdigest()[:12]}.jsa"
    if not archive.exists():
        lock = jars.lock()
        try:
            await lock.acquire_patiently(report)
            if not jars.cached:
                await jars.fetch(report, lock)
            if not archive.exists():
                report("Preparing Kafka for faster starts (once, about 10 s)")
                await _make_archive(archive, KafkaRuntime(java, jars.class_path))
        finally:
            lock.release()
    checkpoint = _checkpoint(archive)
    # No log lines about an archive that doesn't fit: the JVM works without it.
    options = (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
    return KafkaRuntime(
        java, jars.class_path, options if archive.stat().st_size else (), checkpoint if checkpoint.exists() else None
    )


def _checkpoint(archive: Path) -> Path:
    return archive.with_suffix(".checkpoint")


async def _make_archive(archive: Path, runtime: KafkaRuntime) -> None:
    """Run a Kafka that archives its loaded classes when it stops."""
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    archiving = replace(runtime, options=(f"-XX:ArchiveClassesAtExit={partial}",))
    with tempfile.TemporaryDirectory() as scratch:
        async with KafkaProcess(Path(scratch, "kafka"), Path(scratch, "kafka.log"), archiving) as kafka:
            kafka.stop_grace_s = 60.0
            shutil.copyfile(kafka.folder / "log" / CHECKPOINT, _checkpoint(archive))
    if not partial.exists():  # a JVM without archives; the empty file prevents further attempts
        partial.touch()
    partial.rename(archive)
