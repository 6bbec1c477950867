"""Tools for operators: import, export, dead letters, doctor."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer

from devservers.tansu import TansuProcess
from messaging.kafka.connection import KafkaConnection
from tests.support.doctor import examined
from tests.support.facade import new_id, submission
from tests.support.forks import run_forked
from tests.support.messages import Message
from tests.support.raw_batches import batch, produce, record
from tests.support.service import Json, Servers, Service, running_service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

ROWS: Final = int(os.environ.get("TEST_IMPORT_ROWS", "20000"))
"""Rows of the large import; one in a hundred is invalid."""

_LOG_LINES: Final = re.compile(r"^\d{4}-\d\d-\d\dT\S+ \[.*\n", re.MULTILINE)


@pytest.fixture(scope="module")
async def tools(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """Run a service for this module's tests, each of which uses its own object type."""
    async with running_service(servers, tmp_path_factory.mktemp("tools")) as service:
        yield service


async def run(service: Service, *command: str, code: int = 0) -> str:
    """Run a command, which must exit with this code; returns its output without its log, which on a busy machine says
    what the command waits for."""
    done = await service.run(*command, code=code)
    return done.stdout + _LOG_LINES.sub("", done.stderr)


async def stored(service: Service, entity_type: str) -> int:
    async with service.mongo() as database:
        return await database["reviews"].count_documents({"entityType": entity_type})


def write_reviews(file: Path, entity_type: str, rows: int) -> list[tuple[int, str]]:
    """Write a CSV file with two lines per row and every hundredth row invalid; returns their lines and reasons."""
    bad = []
    with file.open("w") as out:
        out.write("Product,type,text,stars,review id\n")
        for n in range(rows):
            stars = "6" if n % 100 == 50 else str(n % 5 + 1)
            if stars == "6":
                bad.append((2 + 2 * n, "/rating: Must be at most 5"))
            own = f"{entity_type}-{n}" if n % 2 else ""
            out.write(f'p-{n % 500},{entity_type},"Number {n},\nand more",{stars},{own}\n')
    return bad


MAPPED: Final = ("--map=Product=entityId", "--map=type=entityType", "--map=text=review", "--map=stars=rating")
COLUMNS: Final = (*MAPPED, "--map=review id=id")


def line_of(checkpoint: Path) -> int:
    """Return the line after which an import would continue; 0 without a checkpoint."""
    try:
        return int(json.loads(checkpoint.read_text())["line"])
    except FileNotFoundError:
        return 0


def started(service: Service, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "plaudit", *command],
        env=service.command_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.long
async def test_interrupted_import_tells_where_the_next_one_continues(tools: Service, tmp_path: Path) -> None:
    file, checkpoint = tmp_path / "reviews.csv", tmp_path / "reviews.csv.plaudit-import.json"
    write_reviews(file, new_id("kind"), 6_000)

    async def interrupted() -> str:
        """The output of an interrupted import; empty if all rows were published before."""
        checkpoint.unlink(missing_ok=True)
        with started(tools, "import", str(file), *COLUMNS) as process:
            await eventually(lambda: process.poll() is not None or line_of(checkpoint) > 1, pause_s=0.002)
            process.terminate()
            output, _ = await asyncio.to_thread(process.communicate)
            assert process.returncode in (-signal.SIGTERM, 1), output.decode()
        return output.decode() if 0 < line_of(checkpoint) < 12_000 else ""

    output = await eventually(interrupted)
    assert f"Interrupted. The same command continues after line {line_of(checkpoint)}." in output


@pytest.mark.slow
async def test_killed_import_continues(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    file, report = tmp_path / "reviews.csv", tmp_path / "report.jsonl"
    expected = write_reviews(file, kind, ROWS)
    checkpoint = tmp_path / "reviews.csv.plaudit-import.json"
    command = ["import", str(file), *COLUMNS, "--report", str(report)]

    async def kill_import() -> int:
        """Return the line of the checkpoint that the killed import has left; 0 if it was finished before."""
        first = started(tools, *command)
        # Polled often, since the import takes only a second or two.
        await eventually(lambda: first.poll() is not None or line_of(checkpoint) >= ROWS * 0.8, pause_s=0.002)
        first.kill()
        output, _ = await asyncio.to_thread(first.communicate)
        assert first.returncode in (-signal.SIGKILL, 1), output.decode()  # some rows are invalid
        return line_of(checkpoint)

    # A repetition publishes nothing twice. On a busy machine the import may finish between two polls.
    line = await eventually(kill_import)
    assert line < 2 * ROWS
    # As if it had been killed between writing its report and its checkpoint.
    report.write_text(report.read_text() + '{"line": 1, "reason": "half')

    second = started(tools, *command)
    output, _ = await asyncio.to_thread(second.communicate)
    assert second.returncode == 1, output.decode()
    assert b"Continuing after line" in output
    good = ROWS - len(expected)
    assert f"Published {good:,} reviews; {len(expected):,} bad rows." in output.decode()
    assert [(r["line"], r["reason"]) for r in map(json.loads, report.read_text().splitlines())] == expected
    assert line_of(checkpoint) == 0
    await eventually(partial(stored, tools, kind), lambda count: count >= good, deadline_s=600)
    await tools.idle()
    assert await stored(tools, kind) == good
    if ROWS <= 20_000:
        assert f"Published {good:,} reviews" in await run(tools, *command, code=1)
        await tools.idle()
        assert await stored(tools, kind) == good


@pytest.mark.long
async def test_import_into_another_installation_restarts(tools: Service, servers: Servers, tmp_path: Path) -> None:
    if servers.is_tansu:
        pytest.skip("all Tansu brokers report the same cluster id")
    kind, file = new_id("kind"), tmp_path / "reviews.csv"
    expected = write_reviews(file, kind, 20_000)
    checkpoint = tmp_path / "reviews.csv.plaudit-import.json"
    command = ["import", str(file), *COLUMNS]

    def beside_up(kafka: str, name: str) -> dict[str, str]:
        """Return the environment of commands next to a `plaudit up` with this data folder."""
        data = tmp_path / name
        data.mkdir()
        endpoints = {
            "http": tools.address,
            "kafka": kafka,
            "mongo": servers.mongo,
            "database": f"{tools.database}{name}",
        }
        (data / "endpoints.json").write_text(json.dumps({**endpoints, "idempotence": name != "one"}))
        addresses = ("PLAUDIT_KAFKA__BOOTSTRAP", "PLAUDIT_KAFKA__IDEMPOTENCE", "PLAUDIT_MONGO__")
        given = {n: v for n, v in tools.command_environment().items() if not n.startswith(addresses)}
        return {**given, "PLAUDIT_DATA": str(data)}

    async with TansuProcess(tmp_path / "tansu", tmp_path / "tansu.log") as other:
        environment = beside_up(other.address, "one")
        initialized = await asyncio.to_thread(run_forked, "init", environment=environment, folder=tmp_path)
        assert initialized.returncode == 0, initialized.stderr

        async def kill_import() -> int:
            first = subprocess.Popen([sys.executable, "-m", "plaudit", *command], env=environment)
            await eventually(lambda: first.poll() is not None or checkpoint.exists(), pause_s=0.002)
            first.kill()
            await asyncio.to_thread(first.wait)
            return line_of(checkpoint)

        # On a busy machine the import may finish between two polls, and its checkpoint is gone.
        assert await eventually(kill_import) > 0
    environment = beside_up(servers.kafka, "two")
    done = await asyncio.to_thread(run_forked, *command, environment=environment, folder=tmp_path, limit_s=300)
    assert "Continuing" not in done.stdout
    await eventually(partial(stored, tools, kind), lambda count: count == 20_000 - len(expected), deadline_s=600)


@pytest.mark.long
async def test_dry_run_publishes_nothing(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    file = tmp_path / "reviews.csv"
    write_reviews(file, kind, 100)
    before = len(await tools.records("review-submissions"))
    output = await run(tools, "import", str(file), *COLUMNS, "--dry-run", code=1)
    assert "Would publish 99 reviews; 1 bad row." in output
    assert "line 102: /rating" in output
    assert len(await tools.records("review-submissions")) == before
    assert [each.name for each in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))] == ["reviews.csv"]


@pytest.mark.long
async def test_wrong_use_of_import_is_reported(tools: Service, tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    write_reviews(file, "T", 1)
    unmapped, wrong, _ = await asyncio.gather(
        run(tools, "import", str(file), code=2),
        run(tools, "import", str(file), "--map=a", code=2),
        run(tools, "import", str(tmp_path / "none.csv"), code=2),
    )
    assert "No column is mapped to entityId, entityType, review, rating" in unmapped
    assert "column=field" in wrong


@pytest.mark.slow
async def test_export_is_imported_elsewhere(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    source = tmp_path / "source.jsonl"
    rows = [submission(f"c-{n}", 1 + n % 5, EntityType=kind, review=f'=Line("{n}")\r\n,é\x1b[2J') for n in range(30)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    await run(tools, "import", str(source))
    await eventually(partial(stored, tools, kind), lambda count: count == 30)
    files = [tmp_path / "export.jsonl", tmp_path / "export.csv"]
    exports = [run(tools, "export", "-o", str(file), "--entity-type", kind) for file in files]
    none, *said = await asyncio.gather(run(tools, "export", "--entity-type", kind, "--status", "Approved"), *exports)
    assert none == "Exported 0 reviews.\n"
    left_out = "CSV has no replies, votes, reports, flags and images. Use JSON Lines to export them.\n"
    assert said == ["Exported 30 reviews.\n", f"Exported 30 reviews.\n{left_out}"]

    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with running_service(tools.servers, folder) as elsewhere:
        for file in files:
            assert "Published 30 reviews; 0 bad rows." in await run(elsewhere, "import", str(file))
            await elsewhere.idle()
            assert await contents(elsewhere, kind) == await contents(tools, kind)


async def contents(service: Service, entity_type: str) -> list[Json]:
    async with service.mongo() as database:
        # Without the origins of the records, and traces of moderation that changed nothing.
        names = (
            *("entityType", "entityId", "entityName", "storeId", "userId", "userName", "title", "review", "language"),
            *("ratingHundredths", "status", "source", "createdDate", "modifiedDate"),
        )
        found = database["reviews"].find({"entityType": entity_type}, dict.fromkeys(names, 1))
        return await found.sort("_id").to_list()


@pytest.mark.slow
async def test_dead_letter_is_corrected_and_replayed_once(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    review = submission("c-1", EntityType=kind)
    bad = json.dumps({**review, "rating": 9}).encode()
    await tools.publish("review-submissions", Message(f"{kind}:c-1", bad, [("trace", b"abc")]))
    letters = partial(tools.records, "review-submissions.dlq")
    (letter,) = await eventually(letters, lambda records: len(records) == 1)
    place = (letter.topic, str(letter.partition), str(letter.offset))
    listed, other, said, _ = await asyncio.gather(
        run(tools, "dlq", "list", "--topic", "review-submissions", "--code", "invalid-message"),
        run(tools, "dlq", "list", "--since", "2100-01-01"),
        run(tools, "dlq", "show", "review-submissions", *place[1:]),
        run(tools, "dlq", "show", *place[:2], "999", code=1),
    )
    line = listed.split()
    assert (*line[:3], line[4], line[-1]) == (*place, "invalid-message", f"{kind}:c-1")
    assert other == "No dead letters.\n"
    assert '"rating": 9' in said
    assert "header     trace: abc" in said
    assert "header     x-error-code: invalid-message" in said

    corrected = tmp_path / "mended.json"
    corrected.write_text(json.dumps(review))
    one = ("dlq", "replay", f"review-submissions/{letter.partition}/{letter.offset}", "--value", str(corrected))
    before = len(await tools.records("review-submissions"))
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes(bad)
    dry, refused = await asyncio.gather(run(tools, *one, "--dry-run"), run(tools, *one[:-1], str(wrong), code=1))
    assert "The consumer of review-submissions would reject this value (invalid-message): /rating: " in refused
    assert dry == "Would replay 1 dead letter.\n"
    assert len(await tools.records("review-submissions")) == before
    assert await run(tools, *one) == "Replayed 1 dead letter.\n"
    await eventually(partial(stored, tools, kind), lambda count: count == 1)
    again, everything = await asyncio.gather(run(tools, *one), run(tools, "dlq", "replay"))
    left_out = "Left out 1 dead letter already replayed. Use --again to replay such letters, too."
    assert again == everything == f"Replayed 0 dead letters.\n{left_out}\n"
    records = await tools.records("review-submissions")
    assert len(records) == before + 1
    (replayed,) = (record for record in records if "x-replayed-from" in dict(record.headers))
    assert (replayed.key, json.loads(replayed.value)) == (f"{kind}:c-1".encode(), review)
    assert [name for name, _ in replayed.headers] == ["trace", "x-replayed-from", "x-first-published"]
    assert await run(tools, *one, "--again") == "Replayed 1 dead letter.\n"
    assert len(await tools.records("review-submissions")) == before + 2
    await tools.idle()
    assert await stored(tools, kind) == 1


@pytest.mark.long
async def test_doctor_finds_healthy_service_ok(tools: Service) -> None:
    await tools.idle()

    async def examine() -> list[Json]:
        return list(json.loads((await tools.run("doctor", "--json", code=None)).stdout))

    def levels(found: list[Json]) -> set[str]:
        relevant = [each for each in found if each["check"] != "dead letters" and "PLAUDIT_TEST_" not in each["text"]]
        return {each["level"] for each in relevant}

    # It waits some seconds for a slow server, then reports it.
    findings = await eventually(examine, lambda found: levels(found) == {"ok"})
    checks = "mongodb, replica set, clock, indexes, outbox, kafka, topics, kafka clock, lag, dead letters"
    assert set(checks.split(", ")) < {finding["check"] for finding in findings}


async def until_doctor_reports(service: Service, *patterns: str) -> str:
    """Return the doctor's report once it matches all of these: it waits some seconds for a slow server, then reports
    it."""
    report = partial(run, service, "doctor", code=1)
    return await eventually(report, lambda text: all(re.search(pattern, text, re.MULTILINE) for pattern in patterns))


@pytest.mark.long
async def test_doctor_names_problems(tools: Service, servers: Servers, tmp_path: Path) -> None:
    broken = Service(servers, tmp_path)
    await run(broken, "init")
    async with broken.mongo() as database:
        await database["reviews"].drop_index("newest")
    await delete_topic(servers, broken.topic("order-events"))
    await broken.publish("review-submissions", Message(None, b"{}"))
    away = Service(Servers("127.0.0.1:1", "mongodb://127.0.0.1:1", is_tansu=False), tmp_path)
    broken.environment["PLAUDIT_KAFKA__RETENTION_DAYS"] = "8"
    missing = {"indexes": "reviews.newest", "topics": broken.topic("order-events")}
    await asyncio.gather(
        until_doctor_reports(
            broken,
            r"shorter than PLAUDIT_KAFKA__RETENTION_DAYS \(8\)",
            r"kafka-configs\.sh to set retention\.ms=691200000",
            *(rf"^fail {check} +missing {re.escape(name)}  → `plaudit init`" for check, name in missing.items()),
        ),
        until_doctor_reports(away, *(rf"^fail {server} +does not answer" for server in ("mongodb", "kafka"))),
    )


@pytest.mark.long
@pytest.mark.kafka
async def test_doctor_names_stuck_partition(servers: Servers, tmp_path: Path) -> None:
    standing = Service(servers, tmp_path)
    await run(standing, "init")
    # Recent enough not to be deleted by Kafka.
    came = datetime.now(UTC) - timedelta(hours=1)
    raw = batch(record(b"{}", headers=[(b"\xff\xfe", b"")]), time=int(came.timestamp() * 1000))
    assert (await produce(servers.kafka, standing.topic("order-events"), 2, raw)).code == 0
    words = f"fail progress partition 2 of order-events is stuck at offset 0, a record of {came:%Y-%m-%d %H:%M:%S} UTC"
    stands = r"\s+".join(map(re.escape, words.split()))
    nobody = r"no\s+consumer\s+group\s+reads\s+order-events\s+\(1\)"
    # One finding per problem: a missing consumer can't be stuck.
    assert re.search(stands, await until_doctor_reports(standing, nobody)) is None
    topic = standing.topic("order-events")
    reader = AIOKafkaConsumer(
        topic, group_id=topic, enable_auto_commit=False, **KafkaConnection(servers.kafka).client_options()
    )
    await reader.start()
    try:
        assert re.search(nobody, await until_doctor_reports(standing, stands)) is None
    finally:
        await reader.stop()


@pytest.mark.long
async def test_doctor_knows_consumers_of_newer_group_protocol(servers: Servers, tmp_path: Path) -> None:
    """Such as a mailer in Java; aiokafka's description of such a group is that of one that doesn't exist."""
    service = Service(servers, tmp_path)
    await run(service, "init")
    topic = service.topic("mail-commands")
    await service.publish("mail-commands", Message("anna", b"{}"), Message("anna", b"{}"))
    options = {"group.id": topic, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    mailer = Consumer({"bootstrap.servers": servers.kafka, "enable.auto.commit": False, **options})
    try:
        mailer.subscribe([topic])
        sent = await eventually(partial(asyncio.to_thread, mailer.poll, 1))
        await asyncio.to_thread(partial(mailer.commit, sent, asynchronous=False))
        assert "ok lag mail-commands 1 " in await examined(service)
    finally:
        await asyncio.to_thread(mailer.close)
