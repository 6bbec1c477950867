"""Configuration: environment variables or `.env`, prefix `PLAUDIT_`, nested with `__`."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from devservers.lock import is_unlocked
from domain.addresses import InvalidAddressError, mailbox
from messaging.kafka.connection import KafkaConnection
from messaging.topics import TopicLayout, TopicNames
from plaudit.auth_settings import AuthSettings
from plaudit.console_settings import ConsoleSettings
from plaudit.http_settings import HttpSettings
from plaudit.published_addresses import PUBLISHED_ADDRESSES, PublishedAddresses
from plaudit.secret_settings import PrivacySettings, ReviewTokenSettings
from plaudit.server_settings import (
    AuditSettings,
    DataFolder,
    EmbeddedSettings,
    ImageSettings,
    KafkaSettings,
    MongoSettings,
    OptionalFile,
)
from storefront.options import StorefrontOptions

SmtpSecurity = Literal["none", "starttls", "tls"]


class MissingAddressError(Exception):
    """A required server has no configured address; the message names the variable to set."""


class ConfigurationError(Exception):
    """A setting is unusable; the message names the variable and the reason."""


class SmtpSettings(BaseModel):
    """The mail server, and the sender for stores without an address of their own."""

    host: Annotated[str | None, Field(description="Mail server. Unset: `plaudit up` runs no mailer")] = None
    port: Annotated[int | None, Field(ge=1, le=65_535, description="Unset: the standard port for `security`")] = None
    security: Annotated[
        SmtpSecurity, Field(description="`none`, or with a check of the server's certificate `starttls` or `tls`")
    ] = "none"
    username: Annotated[str | None, Field(description="Unset: no login")] = None
    password: SecretStr | None = None
    tls_ca_file: Annotated[
        OptionalFile, Field(description="PEM with trusted authorities. Unset: those of the system")
    ] = None
    timeout: Annotated[
        float,
        Field(gt=0, le=60, description="Seconds to wait for each reply of the server; 240 after the content of a mail"),
    ] = 20.0
    helo_name: Annotated[
        str | None,
        Field(
            pattern="^[!-~]+$",
            max_length=255,
            description="The mailer's host name in EHLO. Unset: the fully qualified name of its machine",
        ),
    ] = None
    retry_pause: Annotated[
        float, Field(gt=0, le=3_600, description="Seconds before the first retry; each later pause is longer")
    ] = 30.0
    sender: Annotated[str | None, Field(description="Sender (`From`) of mails for stores without `email`")] = None

    def checked_sender(self) -> str | None:
        """The sender, None without one. Raises ConfigurationError if it is not one mail address."""
        if self.sender is not None:
            try:
                mailbox(self.sender)
            except InvalidAddressError as error:
                raise ConfigurationError("PLAUDIT_SMTP__SENDER: must be exactly one mail address.") from error
        return self.sender

    @property
    def needs_email(self) -> bool:
        """True if mails have no other sender than the address of their store, as far as these settings say: without a
        mail server they say nothing about the mailer, which may be another one than ours."""
        return bool(self.host) and self.sender is None


class SchedulerSettings(BaseModel):
    """The lease that makes one scheduler at a time the active one."""

    lease: Annotated[
        float, Field(ge=1, le=3_600, description="Seconds before another scheduler takes over from one that died")
    ] = 30.0


class MetricsSettings(BaseModel):
    """The address where a process serves metrics and health; the API serves them at its HTTP address, too."""

    host: Annotated[str, Field(description="Address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="Port; 0: not served")] = 0


class TracesSettings(BaseModel):
    """The export of traces, in addition to OpenTelemetry's own variables (`OTEL_*`)."""

    file: Annotated[OptionalFile, Field(description="File for spans as JSON Lines, for debugging")] = None


class LogSettings(BaseModel):
    """Format and level of the log."""

    format: Annotated[Literal["console", "json"], Field(description="`console`, or `json`: one object per line")] = (
        "console"
    )
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="`debug`, `info`, `warning` or `error`")
    ] = "info"


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(env_prefix="PLAUDIT_", env_nested_delimiter="__", env_file=".env", extra="ignore")

    kafka: KafkaSettings = KafkaSettings()
    mongo: MongoSettings = MongoSettings()
    http: HttpSettings = HttpSettings()
    auth: AuthSettings = AuthSettings()
    smtp: SmtpSettings = SmtpSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    traces: TracesSettings = TracesSettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    privacy: PrivacySettings = PrivacySettings()
    audit: AuditSettings = AuditSettings()
    images: ImageSettings = ImageSettings()
    console: ConsoleSettings = ConsoleSettings()
    review_tokens: ReviewTokenSettings = ReviewTokenSettings()
    storefront: StorefrontOptions = StorefrontOptions()
    production: Annotated[bool, Field(description="Refuse to start if losing one server would lose data")] = False
    data: Annotated[DataFolder, Field(description="Data folder of `plaudit up`: database, topics, images")] = Path(
        ".plaudit"
    )
    broker: Annotated[
        Literal["auto", "kafka", "tansu"],
        Field(
            description="Broker of `plaudit up`: `kafka`, `tansu` (in memory, for a first look), or `auto`: "
            "Kafka, else Tansu"
        ),
    ] = "auto"
    entity_types: Annotated[
        SecretStr | None, Field(description="Object types as a JSON array; may contain credentials")
    ] = None
    entity_types_file: Annotated[OptionalFile, Field(description="File with the object types")] = None

    @property
    def endpoints_file(self) -> Path:
        """The file where a running `plaudit up` publishes its addresses."""
        return self.data / "endpoints.json"

    @property
    def lock_file(self) -> Path:
        """The file that a running `plaudit up` keeps locked."""
        return self.data / "lock"

    @property
    def topics(self) -> TopicNames:
        """The names of the topics."""
        return TopicNames(self.kafka.topic_prefix)

    @property
    def topic_layout(self) -> TopicLayout:
        """The settings for new topics."""
        return TopicLayout(self.kafka.partitions, self.kafka.replication_factor, self.kafka.retention_days)

    @property
    def remember_days(self) -> int:
        """Days for which the id of a deleted review stays taken: well beyond Kafka's retention of its submission."""
        return 2 * self.kafka.retention_days + 7

    def kafka_connection(self) -> KafkaConnection:
        """The connection to Kafka. Raises MissingAddressError or ConfigurationError."""
        access = self.kafka
        if access.bootstrap_servers:
            return KafkaConnection(access.bootstrap_servers, access, access.idempotence)
        up = self._up_instead_of("PLAUDIT_KAFKA__BOOTSTRAP_SERVERS")
        if (sasl := up.get("kafkaSasl")) is not None:
            login = {
                "security_protocol": sasl["securityProtocol"],
                "sasl_mechanism": sasl["mechanism"],
                "sasl_username": sasl["username"],
                "sasl_password": SecretStr(sasl["password"]),
            }
            access = access.model_copy(update=login)
        return KafkaConnection(up["kafka"], access, access.idempotence and up.get("idempotence", True))

    def mongo_uri(self) -> str:
        """The URI of MongoDB. Raises MissingAddressError or ConfigurationError."""
        uri = self.mongo.uri
        return uri.get_secret_value() if uri else self._up_instead_of("PLAUDIT_MONGO__URI")["mongo"]

    def mongo_database(self) -> str:
        """The name of the database: on the server of a running `plaudit up` that it has, else the configured one, also
        if both servers are configured.

        Raises ConfigurationError if another one is configured than the running `plaudit up` has, or if its addresses
        can't be read.
        """
        uri = self.mongo.uri
        up = None if uri and self.kafka.bootstrap_servers else self.endpoints()
        if up is None or (uri and uri.get_secret_value() != up["mongo"]):
            return self.mongo.database
        there, named = up["database"], self.mongo.database
        if "database" in self.mongo.model_fields_set and named != there:
            raise self._contradiction("PLAUDIT_MONGO__DATABASE", named, f"uses the database {there}")
        return there

    def http_address(self) -> str:
        """The URL of the service: that of a running `plaudit up`, else the configured one, also if both servers are
        configured otherwise than that has them.

        Raises ConfigurationError if another host, port or server is configured than the running `plaudit up` has.
        """
        up = self._up()
        if up is None:
            return self.http.address
        there = up["http"]
        host, port, configured = self.http.host.lower(), self.http.port, self.http.model_fields_set
        if "host" in configured and host != urlsplit(there).hostname:
            raise self._contradiction("PLAUDIT_HTTP__HOST", host, f"listens on {there}")
        if "port" in configured and port not in (0, urlsplit(there).port):
            raise self._contradiction("PLAUDIT_HTTP__PORT", port, f"listens on {there}")
        return there

    def _contradiction(self, variable: str, value: object, there: str) -> ConfigurationError:
        return ConfigurationError(
            f"{variable} is {value}, but the `plaudit up` in {self.data} {there}. Set PLAUDIT_DATA (DATA for "
            f"`make`) to the data folder of the intended one, or unset {variable}."
        )

    def _up_instead_of(self, variable: str) -> PublishedAddresses:
        """The running `plaudit up`, which has to have the server of this variable. Raises MissingAddressError."""
        if up := self._up():
            return up
        raise MissingAddressError(
            f"{variable} is not set, and no `plaudit up` runs in {self.data}. Set {variable}, or start `plaudit "
            "up`, which brings its own servers. If it runs with another data folder, set PLAUDIT_DATA (DATA for "
            "`make`) to that."
        )

    def _up(self) -> PublishedAddresses | None:
        """The running `plaudit up`, unless both servers are configured otherwise than that has them.

        Raises ConfigurationError if one of them is.
        """
        up = self.endpoints()
        if up is None:
            return None
        uri = self.mongo.uri.get_secret_value() if self.mongo.uri else None
        kafka = ("KAFKA__BOOTSTRAP_SERVERS", self.kafka.bootstrap_servers, up["kafka"])
        servers = (("MONGO__URI", uri, up["mongo"]), kafka)
        others = [variable for variable, configured, there in servers if configured and configured != there]
        if len(others) == 1:
            raise ConfigurationError(
                f"PLAUDIT_{others[0]} is not the server of the `plaudit up` in {self.data}, whose other addresses "
                "would be used with it. Set the addresses of all servers, set PLAUDIT_DATA (DATA for `make`) to "
                f"another folder, or unset PLAUDIT_{others[0]}."
            )
        return None if others else up

    def endpoints(self) -> PublishedAddresses | None:
        """The servers of a running `plaudit up` with this data folder, as it publishes them; None if none is running.

        Raises ConfigurationError if they can't be read, for example in the folder of another user.
        """
        try:
            published = PUBLISHED_ADDRESSES.validate_json(self.endpoints_file.read_bytes())
            # A killed `plaudit up` leaves its file behind.
            return None if is_unlocked(self.lock_file) else published
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError):
                why, advice = error.strerror, "run this as the same user"
            else:
                why, advice = "addresses are missing in it", "start that again, which writes the file anew"
            raise ConfigurationError(
                f"PLAUDIT_DATA: {self.endpoints_file} can't be read ({why}). It contains the addresses of a "
                f"`plaudit up`: {advice}, or set PLAUDIT_KAFKA__BOOTSTRAP_SERVERS and PLAUDIT_MONGO__URI."
            ) from error

    def is_up_starting(self) -> bool:
        """True if a `plaudit up` runs with this data folder, and isn't ready yet. Raises what `endpoints` does."""
        return self.endpoints() is None and self.lock_file.exists() and not is_unlocked(self.lock_file)
