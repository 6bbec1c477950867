"""OAuth tokens for Kafka: cached, and never part of an error message."""

import asyncio

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from pydantic import SecretStr

from messaging.kafka import oauth
from messaging.kafka.connection import KafkaAccess, KafkaConnection, UnusableConnectionError, is_broker_away
from messaging.kafka.oauth import ClientCredentials
from tests.support.clock import Clock
from tests.support.sockets import HOST, listening
from tests.support.tls_servers import PASSWORDS, SERVICE, token_endpoint


@pytest.fixture(autouse=True)
def _long_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough for an endpoint that is up, however busy the machine is."""
    monkeypatch.setattr(oauth, "_TIMEOUT_S", 60.0)


async def test_token_is_cached_until_shortly_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(100)
    monkeypatch.setattr(oauth, "monotonic", clock)
    async with token_endpoint() as url:
        tokens = ClientCredentials(url, SERVICE, PASSWORDS[SERVICE], scope="kafka")
        first = await tokens.token()
        assert first.count(".") == 2
    # The endpoint is down; the cached token needs no request.
    clock.now += 569
    assert await tokens.token() == first
    clock.now += 2
    with pytest.raises(KafkaConnectionError):
        await tokens.token()


async def test_wrong_secret_is_not_part_of_the_error() -> None:
    async with token_endpoint() as url:
        with pytest.raises(KafkaConnectionError) as caught:
            await ClientCredentials(url, SERVICE, "pass-of-nobody", scope=None).token()
    assert "pass-of" not in str(caught.value)
    assert is_broker_away(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2**20 + b'{"access_token": "a"}',
        b"HTTP/1.1 302 Found\r\nlocation: /other\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b'HTTP/1.1 200 OK\r\n\r\n{"access_token": 1}',
    ],
    ids=["too large", "redirect", "list", "number"],
)
async def test_unusable_answer_is_no_token(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with listening(serve) as port:
        with pytest.raises(KafkaConnectionError):
            await ClientCredentials(f"http://{HOST}:{port}/token", SERVICE, PASSWORDS[SERVICE], scope=None).token()


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
def test_unusable_token_settings_are_rejected(url: str | None, password: str | None, reason: str) -> None:
    access = KafkaAccess(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_username=SERVICE,
        sasl_password=SecretStr(password) if password else None,
        sasl_token_url=url,
    )
    with pytest.raises(UnusableConnectionError, match=reason):
        KafkaConnection("kafka:9093", access).client_options()


def test_missing_authorization_counts_as_unavailable() -> None:
    assert is_broker_away(TopicAuthorizationFailedError("plaudit.events"))
