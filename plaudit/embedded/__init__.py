"""Servers for `plaudit up` and the tests on machines that have none: MongoDB and Kafka as child processes."""

from plaudit.embedded.broker import Broker, KafkaServer, embedded_kafka
from plaudit.embedded.errors import EmbeddedServerError, MissingPartError, Report
from plaudit.embedded.kafka import USER as KAFKA_USER
from plaudit.embedded.kafka import KafkaProcess, KafkaRuntime, form_cluster
from plaudit.embedded.kafka_setup import set_up_kafka
from plaudit.embedded.mongo import MongoProcess, MongoServer, embedded_mongo, form_replica_set
from plaudit.embedded.private import UMASK, private_folder
from plaudit.embedded.server import ServerProcess
from plaudit.embedded.tansu import TansuProcess

__all__ = [
    "KAFKA_USER",
    "UMASK",
    "Broker",
    "EmbeddedServerError",
    "KafkaProcess",
    "KafkaRuntime",
    "KafkaServer",
    "MissingPartError",
    "MongoProcess",
    "MongoServer",
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
