"""The embedded broker: Apache Kafka, or Tansu instead."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from confluent_kafka import Producer

from devservers import kafka_setup
from devservers.broker import Broker, embedded_kafka
from devservers.errors import EmbeddedServerError, MissingPartError
from devservers.kafka import KafkaProcess, KafkaRuntime
from devservers.kafka_jars import KafkaJars
from devservers.kafka_setup import set_up_kafka
from devservers.server import ServerProcess
from devservers.tansu import TansuProcess
from messaging.kafka.administration import admin_client
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.lag import ConsumerLag, Unread
from messaging.topics import Topic, TopicLayout, TopicNames, create_topics
from tests.support.processes import Marked
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("marked")

JAVA = "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2"
LARGE = b"x" * 11_000_000


async def create_topic(server: ServerProcess) -> None:
    async with admin_client(KafkaConnection(server.address)) as admin:
        await admin.create_topics([NewTopic("reviews", 12, 1)])


async def produce(server: ServerProcess, value: bytes) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=server.address,
        enable_idempotence=isinstance(server, KafkaProcess),
        max_request_size=12_000_000,
    ) as producer:
        await producer.send_and_wait("reviews", value, partition=0)


def produce_by_librdkafka(server: ServerProcess, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": server.address, "enable.idempotence": True})
    producer.produce("reviews", value, partition=0)
    assert producer.flush(60) == 0


async def consume(server: ServerProcess, count: int) -> Sequence[bytes | None]:
    partition = TopicPartition("reviews", 0)
    async with AIOKafkaConsumer(bootstrap_servers=server.address, fetch_max_wait_ms=20) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        async with asyncio.timeout(60):
            return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.slow
@pytest.mark.usefixtures("kafka_can_run")
async def test_data_and_address_survive_stop_and_crash(data: Path, progress: list[str]) -> None:
    async with embedded_kafka(data, progress.append) as server:
        assert isinstance(server, KafkaProcess)
        await create_topic(server)
        await produce(server, b"1")
        await server.stop()
        assert server.pid is None
        await server.start()
        await asyncio.to_thread(produce_by_librdkafka, server, b"2")
        address = server.address
        server.kill()
        assert server.pid is None
    async with embedded_kafka(data, progress.append) as server:
        assert server.address == address
        server.stop_grace_s = 60.0  # other tests use the processor
        await produce(server, LARGE)
        assert await consume(server, 3) == [b"1", b"2", LARGE]
        with pytest.raises(EmbeddedServerError, match=r"in use by another `plaudit up` \(process \d+\)"):
            async with embedded_kafka(data, progress.append):
                pass
    assert progress[-1] == "Starting Kafka"
    assert "shut down completed" in (data / "logs" / "kafka.log").read_text()
    assert (data / "kafka" / "log" / ".kafka_cleanshutdown").exists()


@pytest.mark.usefixtures("kafka_can_run")
@pytest.mark.long
async def test_startup_failure_is_reported_immediately(data: Path, progress: list[str]) -> None:
    metadata = data / "kafka" / "log" / "meta.properties"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("version=1\nnode.id=7\ncluster.id=another\n")
    with pytest.raises(EmbeddedServerError, match=r"(?s)exit code 1.*Stored node id 7"):
        # Well before the start timeout, but long enough for a JVM on a busy machine.
        async with asyncio.timeout(KafkaProcess.start_timeout_s / 2), embedded_kafka(data, progress.append):
            pass


@pytest.mark.usefixtures("kafka_can_run")
@pytest.mark.long
async def test_node_by_itself_keeps_its_session_without_processor_for_seconds(data: Path, progress: list[str]) -> None:
    async with embedded_kafka(data, progress.append) as server:
        assert server.pid is not None
        for _ in range(3):
            os.kill(server.pid, signal.SIGSTOP)
            await asyncio.sleep(4.5)  # longer than the session of a node in a cluster
            os.kill(server.pid, signal.SIGCONT)
            await asyncio.sleep(4)  # for a heartbeat, also on a busy machine
    assert "session has timed out" not in (data / "logs" / "kafka.log").read_text()


async def test_tansu_keeps_its_address(data: Path, progress: list[str]) -> None:
    async with embedded_kafka(data, progress.append, broker=Broker.TANSU) as server:
        assert isinstance(server, TansuProcess)
        await create_topic(server)
        await produce(server, b"1")
        assert await consume(server, 1) == [b"1"]
        address = server.address
        server.kill()
        await server.start()
        await create_topic(server)
    async with embedded_kafka(data, progress.append, broker=Broker.TANSU) as server:
        assert server.address == address
    assert set(progress) == {"Starting Tansu"}


async def test_lag_on_tansu(data: Path, progress: list[str]) -> None:
    """Routers of commands read the lag before they forward their first command."""
    names = TopicNames("p.")
    async with embedded_kafka(data, progress.append, broker=Broker.TANSU) as server:
        connection = KafkaConnection(server.address, idempotence=False)
        async with admin_client(connection) as admin:
            await create_topics(admin, names, TopicLayout(partitions=2), {})
        name = names.name(Topic.MODERATION_COMMANDS)
        async with AIOKafkaConsumer(
            bootstrap_servers=server.address, group_id=name, enable_auto_commit=False
        ) as member:
            member.assign([TopicPartition(name, 1)])
            await member.commit({TopicPartition(name, 1): 0})
        async with ConsumerLag(connection, names) as lag:
            assert set((await lag.measure()).values()) == {Unread(0, 0)}
            assert await lag.is_read(Topic.MODERATION_COMMANDS)


@pytest.mark.parametrize(
    ("scripts", "missing"),
    [
        ({}, "Java is missing"),
        ({"java": "echo 'openjdk version \"11.0.2\"'"}, "is Java 11, too old"),
        ({"java": "echo 'java version \"1.8.0_401\"'"}, "is Java 8, too old"),
        ({"java": "exit 1"}, "doesn't report its version"),
        ({"java": JAVA}, "Maven, which downloads Kafka, is missing"),
    ],
)
async def test_tansu_replaces_kafka_without_its_requirements(
    data: Path, progress: list[str], commands: Callable[..., None], scripts: dict[str, str], missing: str
) -> None:
    commands(**scripts)
    async with embedded_kafka(data, progress.append) as server:
        assert isinstance(server, TansuProcess)
    choice, start = progress
    assert choice.startswith("Using Tansu instead of Kafka: in memory only, without Kafka's guarantees.")
    assert missing in choice
    assert start == "Starting Tansu"
    with pytest.raises(MissingPartError, match=missing):
        async with embedded_kafka(data, progress.append, broker=Broker.KAFKA):
            pass


async def test_java_home_is_honoured(
    data: Path, progress: list[str], commands: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands(java=JAVA, mvn="exit 1")
    monkeypatch.setenv("JAVA_HOME", str(data))
    with pytest.raises(MissingPartError, match="but that has no bin/java"):
        async with embedded_kafka(data, progress.append, broker=Broker.KAFKA):
            pass


@pytest.mark.usefixtures("kafka_can_run")
async def test_jvm_options_keep_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    plain = await set_up_kafka(print)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    assert await set_up_kafka(print) == plain


def test_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "plaudit").touch()
    with pytest.raises(EmbeddedServerError, match=r"is not writable .* Set XDG_CACHE_HOME"):
        KafkaJars(tmp_path).lock()


async def test_maven_error_is_reported(data: Path, progress: list[str], commands: Callable[..., None]) -> None:
    commands(java=JAVA, mvn="echo '[ERROR] the registry is on holiday'; exit 1")
    with pytest.raises(EmbeddedServerError, match="the registry is on holiday") as caught:
        async with embedded_kafka(data, progress.append):
            pass
    assert "make up BROKER=tansu" in str(caught.value)
    assert not KafkaJars().cached


@pytest.fixture
def slow_maven(tmp_path: Path, commands: Callable[..., None]) -> Path:
    """A Maven that copies a jar once the returned file exists, and appends a line to `calls` beside it."""
    go_on = tmp_path / "go-on"
    commands(
        java=JAVA,
        mvn=f"""
        for argument; do case $argument in -DoutputDirectory=*) folder=${{argument#*=}};; esac; done
        mkdir "$folder" && touch "$folder/{jar_name()}" && echo called >>"{tmp_path}/calls"
        until test -e "{go_on}"; do sleep 0.01; done
        """,
    )
    return go_on


def jar_name() -> str:
    return f"kafka_2.13-{KafkaJars().folder.name.removeprefix('kafka-')}.jar"


async def test_cancelled_download_leaves_no_partial_cache(
    progress: list[str], slow_maven: Path, marked: Marked
) -> None:
    calls = slow_maven.with_name("calls")
    fetch = asyncio.create_task(set_up_kafka(progress.append))
    await eventually(calls.exists)
    fetch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetch
    await marked.gone()
    assert not KafkaJars().cached


async def test_concurrent_downloads_fetch_once(
    progress: list[str], slow_maven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make_archive(archive: Path, _: KafkaRuntime) -> None:
        await asyncio.to_thread(archive.touch)

    monkeypatch.setattr(kafka_setup, "_make_archive", make_archive)
    both = [asyncio.create_task(set_up_kafka(progress.append)) for _ in range(2)]
    await eventually(lambda: "Waiting for another `plaudit up` that is preparing Kafka" in progress)
    go_on, calls = slow_maven, slow_maven.with_name("calls")
    await asyncio.to_thread(go_on.touch)
    first, second = await asyncio.gather(*both)
    assert first == second
    assert first.class_path.endswith(jar_name())
    assert await asyncio.to_thread(calls.read_text) == "called\n"
