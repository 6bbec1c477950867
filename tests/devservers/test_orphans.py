"""No server outlives its Plaudit process, however that ends."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devservers import child
from devservers.kafka_jars import KafkaJars
from tests.support.processes import Marked
from tests.support.waiting import DEADLINE_S, eventually

PROGRAM = textwrap.dedent(
    """
    import asyncio, os, signal, sys
    from contextlib import AsyncExitStack
    from pathlib import Path
    from devservers import child
    from devservers.broker import Broker, embedded_kafka
    from devservers.kafka import KafkaProcess
    from devservers.mongo import MongoProcess, embedded_mongo

    KafkaProcess.stop_grace_s = MongoProcess.stop_grace_s = 60.0  # other tests take the processor
    if leash := os.environ.get("OTHER_LEASH"):
        child._LEASH = Path(leash)

    async def main(data: Path, broker: str) -> None:
        async with AsyncExitStack() as servers:
            async with asyncio.TaskGroup() as both:
                both.create_task(servers.enter_async_context(embedded_mongo(data, print)))
                both.create_task(servers.enter_async_context(embedded_kafka(data, print, broker=Broker(broker))))
            (data / "ready").touch()
            await asyncio.Event().wait()

    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
    """
)

pytestmark = pytest.mark.usefixtures("kafka_can_run")


@contextmanager
def plaudit(data: Path, broker: str, *, cache: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs both servers."""
    environment = dict(os.environ) | ({"XDG_CACHE_HOME": str(cache)} if cache else {})
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, data, broker], process_group=0, env=environment, stderr=subprocess.DEVNULL
    ) as parent:
        try:
            yield parent
        finally:
            parent.kill()


# Short-lived children could end by themselves before a test looks: each of these hangs until it is killed.


def late_leash(folder: Path) -> Path:
    """A leash that takes effect only after its parent has ended."""
    leash = folder / "leash.py"
    leash.write_text(
        "import os, runpy, sys, time\n"
        "while os.getppid() == int(sys.argv[1]):\n"
        "    time.sleep(0.01)  # until the parent is killed\n"
        f"runpy.run_path({str(child._LEASH)!r}, run_name='__main__')\n"
    )
    return leash


def hanging_java(folder: Path) -> Path:
    """A JAVA_HOME whose Java hangs when asked for its version."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)  # until it is killed\n")
    java.chmod(0o755)
    return java.parent.parent


def paused_jvm(folder: Path) -> str:
    """Options of a JVM that pauses at its start."""
    return f"-XX:+UnlockDiagnosticVMOptions -XX:+PauseAtStartup -XX:PauseAtStartupFile={folder / 'paused'}"


async def kill_and_wait(parent: subprocess.Popen[bytes], marked: Marked) -> None:
    """Kill the process and wait until none of its children is left."""
    parent.kill()
    parent.wait()
    await marked.gone()


@pytest.mark.long
@pytest.mark.parametrize("moment", ["leash.py", "-version", "copy-dependencies"])
async def test_kill_during_download(
    data: Path, tmp_path: Path, marked: Marked, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    if moment == "leash.py":
        monkeypatch.setenv("OTHER_LEASH", str(late_leash(tmp_path)))
    elif moment == "-version":
        monkeypatch.setenv("JAVA_HOME", str(hanging_java(tmp_path)))
    else:
        monkeypatch.setenv("MAVEN_OPTS", paused_jvm(tmp_path))
    with plaudit(data, "kafka", cache=tmp_path) as parent:
        await marked.running(moment)
        await kill_and_wait(parent, marked)
    assert not KafkaJars(tmp_path).cached


@pytest.mark.slow
async def test_kill_during_archiving(data: Path, tmp_path: Path, marked: Marked) -> None:
    jars = KafkaJars(tmp_path).folder
    jars.mkdir(parents=True)
    for jar in KafkaJars().folder.glob("*.jar"):
        (jars / jar.name).symlink_to(jar)
    with plaudit(data, "kafka", cache=tmp_path) as parent:
        await marked.running("-XX:ArchiveClassesAtExit")
        await kill_and_wait(parent, marked)
    assert not list(jars.glob("*.jsa"))


@pytest.mark.parametrize("moment", ["--replSet", "kafka.Kafka"])
async def test_kill_during_start(data: Path, marked: Marked, moment: str) -> None:
    with plaudit(data, "kafka") as parent:
        await marked.running(moment)
        await kill_and_wait(parent, marked)


@pytest.mark.long
async def test_failed_server_stops_the_other(data: Path, marked: Marked) -> None:
    metadata = data / "kafka" / "log" / "meta.properties"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("version=1\nnode.id=7\ncluster.id=another\n")
    with plaudit(data, "kafka") as parent:
        assert parent.wait(DEADLINE_S) == 1
        assert not marked.commands()
    assert (data / "logs" / "mongod.log").exists()


@pytest.mark.long
async def test_kill_when_ready(data: Path, marked: Marked) -> None:
    with plaudit(data, "auto") as parent:
        await eventually((data / "ready").exists)
        assert marked.run("mongod")
        assert marked.run("kafka.Kafka")
        await kill_and_wait(parent, marked)


@pytest.mark.long
async def test_ctrl_c_stops_servers_cleanly(data: Path, marked: Marked) -> None:
    with plaudit(data, "kafka") as parent:
        await eventually((data / "ready").exists)
        os.killpg(parent.pid, signal.SIGINT)  # as the terminal does
        parent.wait(DEADLINE_S)
        assert not marked.commands()
    assert (data / "kafka" / "log" / ".kafka_cleanshutdown").exists()
    assert '"msg":"Shutting down","attr":{"exitCode":0}' in (data / "logs" / "mongod.log").read_text()
