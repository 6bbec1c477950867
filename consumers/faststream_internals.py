"""Private parts of FastStream 0.7, checked in one place.

tests/unit/test_faststream_internals.py fails when one of them is renamed.
docs/library-proposals.md proposes public ones.
"""

from collections.abc import Callable
from functools import partial

from aiokafka import AIOKafkaConsumer
from faststream.kafka import KafkaBroker


def build_consumers_by(broker: KafkaBroker, consumer: Callable[..., AIOKafkaConsumer]) -> None:
    """Have a connected broker build its consumers by this function or class: replaces `config.broker_config.builder`.

    FastStream has no way to choose the class of its consumers, and connecting sets the builder anew. Raises TypeError
    if it isn't a `partial` of the consumer's options any more.
    """
    configuration = broker.config.broker_config
    if not isinstance(configuration.builder, partial):
        raise TypeError("FastStream builds its consumers differently than it used to")
    configuration.builder = partial(consumer, **configuration.builder.keywords)
