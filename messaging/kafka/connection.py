"""The connection to Kafka, and the errors that mean that it is unavailable."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidTimestampError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NoBrokersAvailable,
    NoError,
    RecordListTooLargeError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from pydantic import BaseModel, Field, SecretStr, field_validator

from domain.origins import is_confidential

if TYPE_CHECKING:
    from messaging.kafka.oauth import ClientCredentials

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


_LOGIN_REJECTED: Final = (AuthenticationFailedError, SaslAuthenticationFailed)
_OPERATION_DENIED: Final = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)


_ADDRESS: Final = re.compile(
    r"(?:\[[0-9a-fA-F:.]+\]|[^\s,:\[\]]+)(?::([0-9]{1,5}))?|(?:[0-9a-fA-F]*:){2,}[0-9a-fA-F:.]*"
)
_MAX_PORT: Final = 65_535


class BrokerAwayError(Exception):
    """Kafka can't be reached, or didn't acknowledge in time."""


class WrongClockError(BrokerAwayError):
    """Kafka accepts nothing from this machine until its clock, or Kafka's, is set."""


@asynccontextmanager
async def in_time(seconds: float, message: str) -> AsyncIterator[None]:
    """Run the block with this timeout. Raises BrokerAwayError with this message if it takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise BrokerAwayError(message) from error


class UnusableConnectionError(Exception):
    """The connection to Kafka can't even be tried; the message names the variable and the problem."""


class KafkaAccess(BaseModel):
    """Access to Kafka: login and TLS. An empty file name counts as none: templates of an environment leave those."""

    security_protocol: Annotated[SecurityProtocol, Field(description="Or `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`")] = (
        "PLAINTEXT"
    )
    sasl_mechanism: Annotated[SaslMechanism, Field(description="SASL mechanism of the login")] = "PLAIN"
    sasl_username: Annotated[
        str | None, Field(description="User name of the login; with OAUTHBEARER, the client id")
    ] = None
    sasl_password: SecretStr | None = None
    sasl_token_url: Annotated[
        str | None, Field(description="With OAUTHBEARER: URL of the token endpoint, which gets username and password")
    ] = None
    sasl_token_scope: Annotated[str | None, Field(description="With OAUTHBEARER: the requested scope")] = None
    tls_ca_file: Annotated[
        Path | None,
        Field(
            description="PEM: CA certificates that signed those of the brokers; missing: those that the system trusts"
        ),
    ] = None
    tls_cert_file: Annotated[Path | None, Field(description="PEM: client certificate, if brokers require one")] = None
    tls_key_file: Annotated[Path | None, Field(description="PEM: private key of the client certificate")] = None

    @field_validator("tls_ca_file", "tls_cert_file", "tls_key_file", mode="before")
    @classmethod
    def _none_if_empty(cls, name: object) -> object:
        return name or None

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka clients. Raises UnusableConnectionError."""
        options: dict[str, Any] = {"security_protocol": self.security_protocol}
        if self.security_protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.sasl_mechanism
            if self.sasl_mechanism == "OAUTHBEARER":
                options["sasl_oauth_token_provider"] = self._token_provider()
            else:
                options |= dict(zip(("sasl_plain_username", "sasl_plain_password"), self._credentials(), strict=True))
        elif self.sasl_username or self.sasl_password:
            raise UnusableConnectionError(
                f"PLAUDIT_KAFKA__SECURITY_PROTOCOL: {self.security_protocol} sends no password, but "
                "PLAUDIT_KAFKA__SASL_* are set: use SASL_SSL or SASL_PLAINTEXT, or unset them"
            )
        if self.security_protocol.endswith("SSL"):
            options["ssl_context"] = self._tls_context()
        elif self.tls_ca_file or self.tls_cert_file or self.tls_key_file:
            raise UnusableConnectionError(
                f"PLAUDIT_KAFKA__SECURITY_PROTOCOL: {self.security_protocol} has no TLS, but PLAUDIT_KAFKA__TLS_* "
                "are set: use SSL or SASL_SSL, or unset them"
            )
        return options

    def _token_provider(self) -> "ClientCredentials":
        from messaging.kafka.oauth import ClientCredentials  # here, so processes without tokens start faster

        name = "PLAUDIT_KAFKA__SASL_TOKEN_URL"
        url = self.sasl_token_url or ""
        scheme, host = _scheme_and_host(url)
        if scheme not in ("http", "https") or not host:
            raise UnusableConnectionError(
                f"{name}: OAUTHBEARER needs the URL of a token endpoint, like https://id.example.com/token"
            )
        if not is_confidential(scheme, host):
            raise UnusableConnectionError(
                f"{name}: must be https, otherwise others on the network can read the password"
            )
        username, password = self._credentials()
        return ClientCredentials(url, username, password, self.sasl_token_scope)

    def _credentials(self) -> tuple[str, str]:
        if not (self.sasl_username and self.sasl_password):
            names = "PLAUDIT_KAFKA__SASL_USERNAME and PLAUDIT_KAFKA__SASL_PASSWORD"
            raise UnusableConnectionError(f"{names}: {self.sasl_mechanism} requires both")
        return self.sasl_username, self.sasl_password.get_secret_value()

    def _tls_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.tls_ca_file)
        except OSError as error:
            raise UnusableConnectionError(
                f"PLAUDIT_KAFKA__TLS_CA_FILE: {self.tls_ca_file}: {_pem_error(error)}"
            ) from error
        if self.tls_key_file and not self.tls_cert_file:
            raise UnusableConnectionError("PLAUDIT_KAFKA__TLS_CERT_FILE: must be set if PLAUDIT_KAFKA__TLS_KEY_FILE is")
        if self.tls_cert_file:
            try:
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
            except OSError as error:
                files = ", ".join(str(file) for file in (self.tls_cert_file, self.tls_key_file) if file)
                raise UnusableConnectionError(
                    f"PLAUDIT_KAFKA__TLS_CERT_FILE and PLAUDIT_KAFKA__TLS_KEY_FILE: {files}: {_pem_error(error)}"
                ) from error
        return context


CLIENT_ID: Final = "plaudit"
"""The name of all clients in the broker's logs and quotas."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """A cluster: its addresses and access to it. `idempotence` is off only for brokers without idempotent producers."""

    bootstrap_servers: str
    access: KafkaAccess = field(default_factory=KafkaAccess)
    idempotence: bool = True

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments that all aiokafka clients share. Raises UnusableConnectionError."""
        from messaging.kafka.aiokafka_internals import make_no_topics  # here, so processes without Kafka start faster

        make_no_topics()
        self._check_addresses()
        address = {"bootstrap_servers": self.bootstrap_servers, "client_id": CLIENT_ID}
        return address | self.access.client_options()

    def _check_addresses(self) -> None:
        addresses = [address.strip() for address in self.bootstrap_servers.split(",")]
        found = [_ADDRESS.fullmatch(address) for address in addresses if address]
        if not found or any(each is None or not 0 < int(each[1] or 1) <= _MAX_PORT for each in found):
            raise UnusableConnectionError(
                "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS: must be addresses like kafka-1:9092,kafka-2:9092"
            )


def _pem_error(error: OSError) -> str:
    # TLS errors concern the content of the file, not the file itself.
    return (
        f"not a usable PEM file ({error.reason})" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    )


def rejection(error: KafkaError) -> BrokerAwayError:
    """The error of messages that Kafka rejects for now."""
    if isinstance(error, InvalidTimestampError):
        return WrongClockError("this machine's clock and Kafka's differ by more than the topic allows: set the clock")
    return BrokerAwayError(f"Kafka rejected the messages: {error!r}")


def is_too_large(error: BaseException) -> bool:
    """True if a message exceeds its topic's limit, until an administrator raises that."""
    return isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError)


def is_operation_denied(error: BaseException) -> bool:
    """True if Kafka accepts our login, but denies this operation; it may allow others."""
    return isinstance(error, _OPERATION_DENIED)


def is_access_denied(error: BaseException) -> bool:
    """True if Kafka is reachable, but rejects our login or denies the operation."""
    return is_operation_denied(error) or isinstance(error, _LOGIN_REJECTED)


def is_broker_away(error: BaseException) -> bool:
    """True if Kafka is unavailable, busy, or denies access for now: the same operation can succeed later."""
    # NoError: aiokafka raises it instead of the error of a single partition whose offset it asks for.
    if isinstance(error, BrokerAwayError | KafkaConnectionError | KafkaTimeoutError | NoBrokersAvailable | NoError):
        return True
    # An administrator has to grant the right; the waiting messages are not at fault.
    return is_access_denied(error) or (isinstance(error, KafkaError) and bool(error.retriable))


def _scheme_and_host(url: str) -> tuple[str, str]:
    """The scheme and host of a URL; both empty if it can't be parsed."""
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or ""
    except ValueError:
        return "", ""
