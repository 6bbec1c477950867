"""Tokens for Kafka: had once, kept, and no word of them in what goes wrong."""

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from pydantic import SecretStr

from messaging.kafka import oauth
from messaging.kafka.connection import KafkaAccess, KafkaConnection, UnusableConnectionError, is_broker_away
from messaging.kafka.oauth import ClientCredentials
from tests.support.clock import Clock
from tests.support.tls_servers import PASSWORDS, SERVICE, token_endpoint


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is there answers in time, however busy the machine is."""
    monkeypatch.setattr(oauth, "_TIMEOUT_S", 60.0)


async def test_a_token_is_kept_until_shortly_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(100)
    monkeypatch.setattr(oauth, "monotonic", clock)
    async with token_endpoint() as url:
        tokens = ClientCredentials(url, SERVICE, PASSWORDS[SERVICE], scope="kafka")
        first = await tokens.token()
        assert first.count(".") == 2
    # The endpoint is gone, and nobody asks it.
    clock.now += 569
    assert await tokens.token() == first
    clock.now += 2
    with pytest.raises(KafkaConnectionError):
        await tokens.token()


async def test_a_wrong_secret_is_told_without_it() -> None:
    async with token_endpoint() as url:
        with pytest.raises(KafkaConnectionError) as caught:
            await ClientCredentials(url, SERVICE, "pass-of-nobody", scope=None).token()
    assert "pass-of" not in str(caught.value)
    assert is_broker_away(caught.value)


@pytest.mark.parametrize(
    ("url", "password", "reason"),
    [
        (None, "pass", "PLAUDIT_KAFKA__SASL_TOKEN_URL: OAUTHBEARER needs the URL"),
        ("id.example.com/token", "pass", "PLAUDIT_KAFKA__SASL_TOKEN_URL: OAUTHBEARER needs the URL"),
        ("https://[id/token", "pass", "PLAUDIT_KAFKA__SASL_TOKEN_URL: OAUTHBEARER needs the URL"),
        ("https:///token", "pass", "PLAUDIT_KAFKA__SASL_TOKEN_URL: OAUTHBEARER needs the URL"),
        ("http://id.example.com/token", "pass", "PLAUDIT_KAFKA__SASL_TOKEN_URL: must be https"),
        ("https://id.example.com/token", None, "PLAUDIT_KAFKA__SASL_PASSWORD: OAUTHBEARER requires both"),
    ],
)
def test_a_connection_with_tokens_that_cannot_even_be_tried(url: str | None, password: str | None, reason: str) -> None:
    access = KafkaAccess(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_username=SERVICE,
        sasl_password=SecretStr(password) if password else None,
        sasl_token_url=url,
    )
    with pytest.raises(UnusableConnectionError, match=reason):
        KafkaConnection("kafka:9093", access).client_options()


def test_what_waits_for_a_right_is_kept() -> None:
    assert is_broker_away(TopicAuthorizationFailedError("plaudit.events"))
