"""Servers for `plaudit up` and the tests on machines that have none: MongoDB and Kafka as child processes."""

from devservers.broker import Broker, embedded_kafka
from devservers.errors import EmbeddedServerError, MissingPartError, Report
from devservers.kafka import USER as KAFKA_USER
from devservers.kafka import KafkaProcess, KafkaRuntime, form_cluster
from devservers.kafka_setup import set_up_kafka
from devservers.mongo import MongoProcess, embedded_mongo, form_replica_set
from devservers.private import UMASK, private_folder
from devservers.server import ServerProcess
from devservers.tansu import TansuProcess

__all__ = [
    "KAFKA_USER",
    "UMASK",
    "Broker",
    "EmbeddedServerError",
    "KafkaProcess",
    "KafkaRuntime",
    "MissingPartError",
    "MongoProcess",
    "Report",
    "ServerProcess",
    "TansuProcess",
    "embedded_kafka",
    "embedded_mongo",
    "form_cluster",
    "form_replica_set",
    "private_folder",
    "set_up_kafka",
]
