"""The choice of a broker: Apache Kafka, or Tansu if Java or Maven is missing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path

from devservers.errors import EmbeddedServerError, MissingPartError, Report
from devservers.kafka import KafkaProcess, KafkaRuntime
from devservers.kafka_setup import set_up_kafka
from devservers.tansu import TansuProcess

_TANSU_IS_OPEN = (
    "Tansu doesn't support passwords. Use Apache Kafka (PLAUDIT_BROKER=kafka), or set "
    "PLAUDIT_EMBEDDED__KAFKA_AUTH=false."
)


class Broker(StrEnum):
    """The broker to run; AUTO is Kafka, or Tansu if Java or Maven is missing."""

    AUTO = "auto"
    KAFKA = "kafka"
    TANSU = "tansu"


@asynccontextmanager
async def embedded_kafka(
    data: Path, report: Report, *, broker: Broker = Broker.AUTO, with_password: bool = False
) -> AsyncIterator[KafkaProcess | TansuProcess]:
    """Run a broker on the data folder until the block ends. Raises EmbeddedServerError.

    Only Kafka can have a password.
    """
    if with_password and broker is Broker.TANSU:
        raise EmbeddedServerError(_TANSU_IS_OPEN)
    runtime = await _kafka_runtime(Broker.KAFKA if with_password else broker, report)
    if runtime is None:
        report("Starting Tansu")
        async with TansuProcess(data / "tansu", data / "logs" / "tansu.log") as tansu:
            yield tansu
    else:
        report("Starting Kafka")
        folder, log = data / "kafka", data / "logs" / "kafka.log"
        async with KafkaProcess(folder, log, runtime, with_password=with_password) as kafka:
            yield kafka


async def _kafka_runtime(broker: Broker, report: Report) -> KafkaRuntime | None:
    if broker is Broker.TANSU:
        return None
    try:
        return await set_up_kafka(report)
    except MissingPartError as missing:
        if broker is Broker.KAFKA:
            raise
        report(f"Using Tansu instead of Kafka: in memory only, without Kafka's guarantees. {missing}")
        return None
