"""Private parts of FastStream 0.7, checked in one place.

tests/unit/test_faststream_internals.py fails when one of them is renamed. docs/upstream.md proposes public ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider
from faststream.kafka import KafkaBroker


def build_consumers_by(
    broker: KafkaBroker, consumer: Callable[..., AIOKafkaConsumer], tokens: AbstractTokenProvider | None
) -> None:
    """Have a connected broker build its consumers by this function or class: replaces `config.broker_config.builder`.

    FastStream has no way to choose the class of them, nor to hand on a provider of OAuth tokens. Connecting
    sets the builder anew. Raises TypeError if it isn't a `partial` of the consumer's options any more.
    """
    configuration = broker.config.broker_config
    if not isinstance(configuration.builder, partial):
        raise TypeError("FastStream builds its consumers differently than it used to")
    options = configuration.builder.keywords | ({"sasl_oauth_token_provider": tokens} if tokens is not None else {})
    configuration.builder = partial(consumer, **options)
