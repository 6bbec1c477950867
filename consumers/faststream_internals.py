"""Private parts of FastStream 0.7, checked in one place.

tests/unit/test_faststream_internals.py fails when one of them is renamed.
docs/library-proposals.md proposes public replacements.
"""

from collections.abc import Callable
from functools import partial

from aiokafka import AIOKafkaConsumer
from faststream.kafka import KafkaBroker


def build_consumers_by(broker: KafkaBroker, consumer: Callable[..., AIOKafkaConsumer]) -> None:
    """Make a connected broker create its consumers with `consumer`, by replacing `config.broker_config.builder`.

    FastStream has no public way to choose the consumer class, and connecting resets the builder. Raises TypeError if
    the builder is no longer a `partial` with the consumer's options.
    """
    configuration = broker.config.broker_config
    if not isinstance(configuration.builder, partial):
        raise TypeError("FastStream builds its consumers differently than expected")
    configuration.builder = partial(consumer, **configuration.builder.keywords)
