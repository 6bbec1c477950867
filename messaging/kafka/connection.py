"""The connection to Kafka, and the errors that mean that it is unavailable."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

if TYPE_CHECKING:
    from messaging.kafka.oauth import ClientCredentials

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


_NOT_LET_IN: Final = (
    AuthenticationFailedError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


class BrokerAwayError(Exception):
    """Kafka can't be reached or didn't acknowledge in time."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Address and credentials of the cluster.

    `idempotence` is off only for brokers that have no idempotent producers. With OAUTHBEARER, username and password
    are the client's id and secret at the token endpoint.
    """

    bootstrap_servers: str
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_token_url: str | None = None
    sasl_token_scope: str | None = None
    tls_ca_file: str | None = None
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    idempotence: bool = True
    client_id: str = "plaudit"

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments that all aiokafka clients share."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.sasl_mechanism
            if self.sasl_mechanism == "OAUTHBEARER":
                options["sasl_oauth_token_provider"] = self._tokens()
            else:
                options |= {"sasl_plain_username": self.sasl_username, "sasl_plain_password": self.sasl_password}
        if self.security_protocol.endswith("SSL"):
            options["ssl_context"] = self._tls()
        return options

    def _tokens(self) -> ClientCredentials:
        from messaging.kafka.oauth import (
            ClientCredentials,  # here, so that a process that needs no tokens starts faster
        )

        if not self.sasl_token_url:
            raise ValueError("OAUTHBEARER needs the address of a token endpoint: PLAUDIT_KAFKA__SASL_TOKEN_URL")
        return ClientCredentials(
            self.sasl_token_url, self.sasl_username or "", self.sasl_password or "", self.sasl_token_scope
        )

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.tls_ca_file)
        if self.tls_cert_file:
            context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
        return context


def is_broker_away(error: BaseException) -> bool:
    """True if Kafka is unavailable, busy, or denies access for now: the same operation can work later."""
    if isinstance(error, BrokerAwayError | KafkaConnectionError | KafkaTimeoutError | NoBrokersAvailable):
        return True
    # An administrator has to grant the right; messages that wait for it are not at fault.
    if isinstance(error, _NOT_LET_IN):
        return True
    return isinstance(error, KafkaError) and bool(error.retriable)
