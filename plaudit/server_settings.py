"""Settings of Kafka, MongoDB and the image store, and of what is kept there; types of settings that are paths."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr

from messaging.kafka.connection import KafkaAccess
from storage.images.files import ImageFiles, open_store


class _Address(BaseModel):
    bootstrap_servers: Annotated[
        str | None,
        Field(description="`host:port`, several separated by commas. Unset: `plaudit up` runs its own broker"),
    ] = None


class KafkaSettings(KafkaAccess, _Address):
    """The connection to Kafka, and the settings for new topics."""

    idempotence: Annotated[
        bool,
        Field(
            description="`false` for brokers without idempotent producers: messages may then be duplicated, but "
            "take effect once"
        ),
    ] = True
    topic_prefix: Annotated[
        str,
        Field(
            pattern="^[A-Za-z0-9._-]*$",  # the characters of topic names, which have at most 249
            max_length=200,
            description="Prefix of the names of all topics and consumer groups",
        ),
    ] = "plaudit."
    partitions: Annotated[
        int,
        Field(
            ge=1,
            le=1_000,
            description="Partitions of new topics; `plaudit topics grow` adds partitions to existing ones",
        ),
    ] = 12
    replication_factor: Annotated[
        int, Field(ge=1, le=10, description="Replicas of new topics: 3 to survive the loss of a broker")
    ] = 1
    retention_days: Annotated[
        int,
        Field(
            ge=1,
            le=12_400,  # a TTL index keeps at most 2^31 - 1 seconds, and ids of deleted reviews stay 2 * days + 7
            description="Retention of new topics; ids of deleted reviews stay taken for twice as long plus a week",
        ),
    ] = 7


def _check_database(name: str) -> str:
    if name.lower() in ("admin", "config", "local"):
        raise ValueError("is a system database of MongoDB, without change streams: choose another name")
    return name


class MongoSettings(BaseModel):
    """The connection to MongoDB."""

    uri: Annotated[
        SecretStr | None,
        Field(
            description="`mongodb://…` of a replica set or sharded cluster, percent-encoded. Unset: `plaudit up` "
            "runs its own"
        ),
    ] = None
    database: Annotated[str, AfterValidator(_check_database), Field(description="Name of the database")] = "plaudit"
    timeout: Annotated[
        float,
        Field(
            gt=0,
            description="Seconds to find a usable server; queries of the API have `PLAUDIT_HTTP__QUERY_TIMEOUT` for "
            "that, too",
        ),
    ] = 2.0


class EmbeddedSettings(BaseModel):
    """The servers that `plaudit up` starts."""

    kafka_auth: Annotated[
        bool,
        Field(
            description="Kafka requires user and password (in endpoints.json); otherwise every user of this "
            "machine has access"
        ),
    ] = False


class AuditSettings(BaseModel):
    """Retention of the audit log."""

    keep_days: Annotated[
        int | None,
        Field(
            ge=1,
            le=36_500,
            description="Minimum age in days at which `plaudit audit archive` moves entries. Unset: `--before` decides",
        ),
    ] = None


class ImageSettings(BaseModel):
    """The image store, the same for API and workers."""

    store: Annotated[
        str | None,
        Field(
            description="A folder, or `s3://bucket/prefix` with `AWS_*` variables. Unset: `images` in the data folder"
        ),
    ] = None

    def address(self, data: Path) -> str:
        """The folder or `s3://` address of the store; `data` is the data folder."""
        return self.store or str(data / "images")

    def files(self, data: Path) -> ImageFiles:
        """Open the store; `data` is the data folder. Raises OSError or ValueError if that is impossible."""
        if self.store is None:
            # Only its owner has access, as with `plaudit up`.
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ImageFiles(open_store(self.address(data)))


def _folder_path(value: str | Path) -> Path:
    """The path with `~` expanded. Raises ValueError if it is empty, or can't be a folder."""
    if not value:
        raise ValueError("must not be empty: name a folder, or unset it")
    try:
        path = Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{value} can't be used: {error}") from error
    there = next((each for each in (path, *path.parents) if os.access(each, os.F_OK)), None)
    if there is not None and not there.is_dir():
        raise ValueError(f"{there} is not a folder")
    return path


DataFolder = Annotated[Path, BeforeValidator(_folder_path)]

OptionalFile = Annotated[Path | None, BeforeValidator(lambda path: path or None)]
"""None also for an empty value, as templates of environments leave it: as a path it would be the current folder."""
