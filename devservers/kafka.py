"""Apache Kafka in KRaft mode: broker and controller in one process."""

import base64
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devservers.child import run
from devservers.errors import EmbeddedServerError
from devservers.ports import HOST, ReservedPort
from devservers.server import ServerProcess

USER = "plaudit"
"""The only user of a Kafka with a password."""

CHECKPOINT = "bootstrap.checkpoint"
"""The file in the log folder with the feature levels of a new cluster."""

_LOG4J = Path(__file__).with_name("log4j2.xml")
_FORMAT_TIMEOUT_S = 60.0
_MIB = 1024 * 1024
_LARGEST_MESSAGE = 12 * _MIB

# As in Kafka's own start script, but with a heap for a laptop.
_JVM = (
    "-Xms256m",
    "-Xmx768m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)


@dataclass(frozen=True, slots=True)
class KafkaRuntime:
    """Java, Kafka's jars, options for the JVM, and the checkpoint of an earlier run if there is one."""

    java: Path
    class_path: str
    options: Sequence[str] = ()
    checkpoint: Path | None = None


class KafkaProcess(ServerProcess):
    """One Kafka node, by itself a whole cluster; `form_cluster` makes one cluster of several nodes.

    It opens the port for clients last, when the controller has accepted the broker.
    """

    name: str = "Kafka"
    start_timeout_s: float = 300.0
    """Two minutes and a half are needed with a thirtieth of a core, as at a load of 60 on two."""

    stop_grace_s: float = 5.0

    def __init__(
        self,
        folder: Path,
        log: Path,
        runtime: KafkaRuntime,
        *,
        node_id: int = 1,
        with_password: bool = False,
    ) -> None:
        """`runtime` is from `set_up_kafka`; a folder keeps its `node_id`. Nodes of a cluster have no password."""
        super().__init__(folder, log, with_password=with_password)
        self.node_id = node_id
        self._runtime = runtime
        self._controller_port: ReservedPort | None = None
        self._cluster_id = _new_id()
        self._voters: Sequence[str] = ()

    @property
    def voter(self) -> str:
        """This node as Kafka's `controller.quorum.voters` wants it, once claimed."""
        return f"{self.node_id}@{HOST}:{self._controller.number}"

    @property
    def _controller(self) -> ReservedPort:
        if self._controller_port is None:
            raise RuntimeError("Kafka has no controller port before it is claimed")
        return self._controller_port

    def join(self, cluster_id: str, voters: Sequence[str]) -> None:
        """Make this node, not yet started, a member of a cluster; `form_cluster` does that for all its nodes."""
        self._cluster_id = cluster_id
        self._voters = voters

    def _reserve_ports(self) -> None:
        super()._reserve_ports()
        self._controller_port = ReservedPort.as_before(self.folder / "controller-port")

    def release(self) -> None:
        """Release the folder and the ports."""
        if self._controller_port is not None:
            self._controller_port.release()
            self._controller_port = None
        super().release()

    async def _prepare(self) -> None:
        await super()._prepare()
        properties = "".join(f"{key}={value}\n" for key, value in {**self._settings(), **self._login()}.items())
        (self.folder / "server.properties").write_text(properties)
        # Kafka writes this file last, so an interrupted format is repeated.
        if (self.folder / "log" / "meta.properties").exists():
            return
        if self._runtime.checkpoint is not None:
            self._format_with_checkpoint(self._runtime.checkpoint)
            return
        exit_code, output = await run(
            self._program(
                "kafka.tools.StorageTool",
                *("format", "--ignore-formatted", f"--cluster-id={self._cluster_id}"),
                *("--config", "server.properties"),
                options=("-XX:TieredStopAtLevel=1",),  # too short a run for the optimising compiler
            ),
            timeout_s=_FORMAT_TIMEOUT_S,
            folder=self.folder,
            keep_open=self._inherited(),
        )
        if exit_code != 0:
            raise EmbeddedServerError(f"Kafka couldn't format {self.folder / 'log'}. Its output:\n{output}")

    def _format_with_checkpoint(self, checkpoint: Path) -> None:
        """Format the folder like Kafka's tool, without a JVM: the same checkpoint, and a new directory id."""
        log = self.folder / "log"
        log.mkdir(exist_ok=True)
        shutil.copyfile(checkpoint, log / CHECKPOINT)
        properties = {
            "version": 1,
            "cluster.id": self._cluster_id,
            "node.id": self.node_id,
            "directory.id": _new_id(),
        }
        partial = log / "meta.properties.partial"
        partial.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        partial.rename(log / "meta.properties")

    def _command(self) -> Sequence[str | Path]:
        return self._program("kafka.Kafka", "server.properties", options=self._runtime.options)

    def _program(self, main_class: str, *arguments: str, options: Sequence[str]) -> Sequence[str | Path]:
        logging = (
            f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
            f"-Dplaudit.log={os.path.relpath(self.log, self.folder)}",
        )
        jvm = (*_JVM, *logging, *options)
        return [self._runtime.java, *jvm, "-cp", self._runtime.class_path, main_class, *arguments]

    def _settings(self) -> dict[str, str | int]:
        voters = self._voters or [self.voter]
        copies = min(len(voters), 3)
        in_sync = max(copies - 1, 1)
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{HOST}:{self._controller.number}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "log",  # relative to the working folder, so that the user's path needs no escaping
            # After a crash a node can rejoin, and in a cluster others take over, only when its session has expired. A
            # node by itself has Kafka's own: with a shorter one it loses all partitions while a busy machine delays it.
            "broker.session.timeout.ms": 3_000 if self._voters else 9_000,
            "broker.heartbeat.interval.ms": 500,
            "initial.broker.registration.timeout.ms": int(self.start_timeout_s * 1_000),
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "message.max.bytes": _LARGEST_MESSAGE,
            "replica.fetch.max.bytes": _LARGEST_MESSAGE,
            "offsets.topic.num.partitions": 12,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": 12,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.num.partitions": 12,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": 0,
            "log.segment.bytes": 256 * _MIB,
            "log.index.size.max.bytes": 2 * _MIB,
            "log.cleaner.dedupe.buffer.size": 16 * _MIB,
        }

    def _login(self) -> dict[str, str]:
        """Settings that require a login of clients and of the controller's peers; none without a password."""
        if self.password is None:
            return {}
        user = f'username="{USER}" password="{self.password}" user_{USER}="{self.password}"'
        module = f"org.apache.kafka.common.security.plain.PlainLoginModule required {user};"
        return {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": module,
            "listener.name.controller.plain.sasl.jaas.config": module,
        }


async def form_cluster(nodes: Sequence[KafkaProcess]) -> None:
    """Claim the ports of nodes with different ids, and make them one cluster; start them together afterwards."""
    for node in nodes:
        await node.claim()
    cluster_id = _new_id()
    voters = [node.voter for node in nodes]
    for node in nodes:
        node.join(cluster_id, voters)


def _new_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
