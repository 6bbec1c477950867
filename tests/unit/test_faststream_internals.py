"""The private parts of FastStream that we use work as expected, and renamed ones raise AttributeError."""

from typing import Any

import faststream.kafka
import pytest

from consumers import faststream_internals
from messaging.kafka.oauth import ClientCredentials
from tests.support.renaming import loaded_anew, rename

TOKENS = ClientCredentials("https://localhost", "", "", None)


class BuiltError(Exception):
    """Raised instead of building a consumer, with its options."""


async def check_builder(ours: Any) -> None:
    """A subscriber builds its consumer by the given function, with the broker's options and its own."""
    broker = faststream.kafka.KafkaBroker("127.0.0.1:1", consumer_only=True, sasl_oauth_token_provider=TOKENS)
    subscriber = broker.subscriber("topic", batch=True, group_id="group")

    def build(**options: Any) -> Any:
        raise BuiltError(options)

    await broker.connect()
    ours.build_consumers_by(broker, build)
    with pytest.raises(BuiltError) as built:
        await subscriber.start()
    (options,) = built.value.args
    wanted = {"sasl_oauth_token_provider": TOKENS, "group_id": "group"}
    assert wanted.items() <= options.items()
    assert options["bootstrap_servers"] == ["127.0.0.1:1"]


async def test_private_parts_work_as_used() -> None:
    await check_builder(faststream_internals)


async def test_renamed_part_raises_attribute_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("faststream.kafka.configs.broker", "faststream.kafka.broker.broker"):
        rename(monkeypatch, module, "builder")
    with pytest.raises(AttributeError) as raised:
        await check_builder(loaded_anew(faststream_internals.__name__))
    assert str(raised.traceback[-1].path) == faststream_internals.__file__


async def test_changed_builder_is_detected() -> None:
    broker = faststream.kafka.KafkaBroker("127.0.0.1:1", consumer_only=True)
    broker.config.broker_config.builder = dict
    with pytest.raises(TypeError, match="differently"):
        faststream_internals.build_consumers_by(broker, dict)
