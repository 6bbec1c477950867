"""MongoDB's sink for Kafka Connect, standalone, in one JVM that replaces this process: no rules, no code of ours.

It stores the fields under the names that the indexes have, by bulk inserts, as the bare loops do.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import devservers
from benchmarks.subjects.fixtures import FETCH
from devservers.kafka_jars import find_maven
from messaging.topics import Topic
from plaudit.config import Settings

_HERE: Final = Path(__file__).parent / "connect"
_LOG4J: Final = Path(devservers.__file__).with_name("log4j2.xml")
_RENAMED: Final = (
    "id:_id",
    "EntityType:entityType",
    "EntityId:entityId",
    "EntityName:entityName",
    "rating:ratingHundredths",
)
_TRANSFORMS: Final = {
    "renamed": {"type": "ReplaceField$Value", "renames": ",".join(_RENAMED)},
    "created": {"type": "InsertField$Value", "timestamp.field": "createdDate"},
    "modified": {"type": "InsertField$Value", "timestamp.field": "modifiedDate"},
    "new": {"type": "InsertField$Value", "static.field": "status", "static.value": "0"},
    "number": {"type": "Cast$Value", "spec": "status:int32"},
}


def jars() -> Path:
    """The folder of the jars, which Maven downloads if they are missing. Raises CalledProcessError if Maven fails."""
    pom = _HERE / "pom.xml"
    versions = re.findall(r"<(?:kafka|sink)\.version>(.+)</", pom.read_text())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute()
    folder = cache / "plaudit" / f"connect-{'-'.join(versions)}"
    if not folder.is_dir():
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)  # of an interrupted download
        options = ("--batch-mode", "--quiet", "--strict-checksums", "-Dstyle.color=never", "--file", str(pom))
        goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}")
        subprocess.run([str(find_maven()), *options, *goal], check=True)  # noqa: S603
        partial.rename(folder)
    return folder


def write_properties(file: Path, properties: dict[str, str]) -> str:
    """Write a properties file. Returns its path."""
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return str(file)


def main() -> None:
    """Replace this process by the sink, which runs until killed."""
    settings = Settings()
    folder = settings.data / f"connect-{settings.mongo.database}"
    folder.mkdir(parents=True)
    worker = {
        "bootstrap.servers": settings.kafka_connection().bootstrap_servers,
        "plugin.discovery": "SERVICE_LOAD",  # the fastest start
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(folder / "offsets"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    separator = "&" if "?" in settings.mongo_uri() else "?"
    sink = {
        "name": "sink",
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "tasks.max": "1",
        "topics": settings.topics.name(Topic.REVIEW_SUBMISSIONS),
        "connection.uri": f"{settings.mongo_uri()}{separator}w=majority&journal=true",
        "database": settings.mongo.database,
        "collection": "reviews",
        "document.id.strategy": "com.mongodb.kafka.connect.sink.processor.id.strategy.ProvidedInValueStrategy",
        "writemodel.strategy": "com.mongodb.kafka.connect.sink.writemodel.strategy.InsertOneDefaultStrategy",
        "bulk.write.ordered": "false",
        "consumer.override.auto.offset.reset": "earliest",
        "consumer.override.max.poll.records": str(FETCH),
        "transforms": ",".join(_TRANSFORMS),
    }
    for name, options in _TRANSFORMS.items():
        for option, value in options.items():
            prefix = "org.apache.kafka.connect.transforms." if option == "type" else ""
            sink[f"transforms.{name}.{option}"] = f"{prefix}{value}"
    java = shutil.which("java") or "java"
    jvm = (
        "-Xmx768m",
        "-XX:+UseG1GC",
        f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}",
        f"-Dplaudit.log={folder / 'connect.log'}",
    )
    os.execv(  # noqa: S606
        java,
        [
            java,
            *jvm,
            *("-cp", f"{jars()}/*", "org.apache.kafka.connect.cli.ConnectStandalone"),
            write_properties(folder / "worker.properties", worker),
            write_properties(folder / "sink.properties", sink),
        ],
    )


if __name__ == "__main__":
    main()
