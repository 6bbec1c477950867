"""The backup of docs/operations.md: MongoDB from a copy of its volume, later changes from Kafka."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from messaging.topics import Topic
from tests.stack.stack import SETTLED_S, Stack
from tests.support.facade import REVIEWS, Facade, new_id, submission
from tests.support.waiting import eventually
from tests.support.yaml_text import yaml_in

REPLAYED = {topic for topic in Topic if topic.is_consumed} - {Topic.MAIL_COMMANDS, Topic.DEAD_LETTER_COMMANDS}
COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"
IMAGE = yaml_in(COMPOSE.read_text())["services"]["mongo"]["image"]
PROCESSES = ("api", "worker", "scheduler", "mailer")


async def with_volume(stack: Stack, folder: Path, command: str) -> None:
    """Run a shell command with access to MongoDB's data; MongoDB must be stopped."""
    volume, backup = ("--volumes-from", await stack.container("mongo")), ("--volume", f"{folder}:/backup")
    await stack.engine("run", "--rm", *volume, *backup, IMAGE, "sh", "-c", command)


async def test_restore_replays_newer_changes_from_kafka(stack: Stack, facade: Facade, tmp_path: Path) -> None:
    product = new_id()
    before = await facade.submit(submission(product), submission(product))
    await facade.moderate("approve", *before)

    await stack.run("stop", "mongo")
    moment = datetime.now(UTC)
    await with_volume(stack, tmp_path, "tar -cf /backup/mongo.tar -C /data/db .")
    await stack.run("start", "mongo")
    await stack.settle()
    after = await facade.submit(submission(product))
    await facade.moderate("approve", *after)
    await facade.moderate("reject", before[0])

    await stack.run("stop", *PROCESSES, "mongo")
    await with_volume(stack, tmp_path, "rm -rf /data/db/* && tar -xf /backup/mongo.tar -C /data/db")
    await stack.run("start", "mongo")
    for topic in REPLAYED:
        group = ("--group", f"plaudit.{topic}", "--topic", f"plaudit.{topic}")
        tool = ("/opt/kafka/bin/kafka-consumer-groups.sh", "--bootstrap-server", "kafka:9092", *group)
        since = f"{moment - timedelta(hours=1):%Y-%m-%dT%H:%M:%S.000}"
        reset = await stack.inside("kafka", *tool, "--reset-offsets", "--to-datetime", since, "--execute")
        assert reset.returncode == 0, reset.stderr
    await stack.start("--no-recreate")

    async def statuses() -> dict[str, str]:
        page = await facade.page(entityIds=[product])
        return {row["id"]: row["reviewStatus"] for row in page["results"]}

    expected = {before[0]: "Rejected", before[1]: "Approved", after[0]: "Approved"}
    await eventually(statuses, lambda found: found == expected, deadline_s=SETTLED_S)
    for check in (("reviews", "republish"), ("ratings", "verify")):
        await stack.run("exec", "-T", "api", "plaudit", *check)
    assert await facade.rating(product) == (4, 2)
    assert (await facade.http.post(REVIEWS, json=[submission(product)])).status_code == 202
