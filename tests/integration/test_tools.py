"""The tools of operators: import, export, dead letters, doctor."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from devservers.tansu import TansuProcess
from tests.support.facade import new_id, submission
from tests.support.forks import run_forked
from tests.support.messages import Message
from tests.support.raw_batches import batch, produce, record
from tests.support.service import Json, Servers, Service, running_service
from tests.support.topics import delete_topic
from tests.support.waiting import eventually, free_port

pytestmark = pytest.mark.kafka

ROWS: Final = int(os.environ.get("TEST_IMPORT_ROWS", "20000"))
"""The rows of the large import, one in a hundred bad."""


@pytest.fixture(scope="module")
async def tools(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service for the tests of this module, which use object types of their own."""
    async with running_service(servers, tmp_path_factory.mktemp("tools")) as service:
        yield service


async def run(service: Service, *command: str, code: int = 0) -> str:
    """Run a command that must end with that code, and return what it says."""
    done = await service.run(*command, code=code)
    return done.stdout + done.stderr


async def stored(service: Service, entity_type: str) -> int:
    async with service.mongo() as database:
        return await database["reviews"].count_documents({"entityType": entity_type})


def write_reviews(file: Path, entity_type: str, rows: int) -> list[tuple[int, str]]:
    """Write a CSV file in which each row takes two lines and each hundredth is bad; returns lines and reasons."""
    bad = []
    with file.open("w") as out:
        out.write("Product,type,text,stars,review id\n")
        for n in range(rows):
            stars = "6" if n % 100 == 50 else str(n % 5 + 1)
            if stars == "6":
                bad.append((2 + 2 * n, "/rating: Input should be less than or equal to 5"))
            own = f"{entity_type}-{n}" if n % 2 else ""
            out.write(f'p-{n % 500},{entity_type},"Number {n},\nand more",{stars},{own}\n')
    return bad


MAPPED: Final = ("--map=Product=entityId", "--map=type=entityType", "--map=text=review", "--map=stars=rating")
COLUMNS: Final = (*MAPPED, "--map=review id=id")


def line_of(checkpoint: Path) -> int:
    """The line behind which an import would go on; 0 for one that has no checkpoint."""
    return int(json.loads(checkpoint.read_text())["line"]) if checkpoint.exists() else 0


@pytest.mark.slow
async def test_an_import_that_is_killed_goes_on(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    file, report = tmp_path / "reviews.csv", tmp_path / "report.jsonl"
    expected = write_reviews(file, kind, ROWS)
    checkpoint = tmp_path / "reviews.csv.plaudit-import.json"
    command = ["import", str(file), *COLUMNS, "--report", str(report)]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "plaudit", *command],
            env=tools.command_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    first = start()
    # The checkpoint is looked at more often than `eventually` does: the import is over in a second or two.
    while (line := await asyncio.to_thread(line_of, checkpoint)) < ROWS * 0.8:
        assert first.poll() is None, first.communicate()
        await asyncio.sleep(0.002)
    first.kill()
    assert first.wait() != 0
    assert line < 2 * ROWS
    # As if it had been killed between its report and its checkpoint.
    report.write_text(report.read_text() + '{"line": 1, "reason": "half')

    second = start()
    said, _ = await asyncio.to_thread(second.communicate)
    assert second.returncode == 1, said.decode()
    assert b"Going on behind line" in said
    good = ROWS - len(expected)
    assert f"Published {good} reviews; {len(expected)} rows are bad." in said.decode()
    assert [(r["line"], r["reason"]) for r in map(json.loads, report.read_text().splitlines())] == expected
    assert line_of(checkpoint) == 0
    await eventually(partial(stored, tools, kind), lambda count: count >= good, deadline_s=120)
    await tools.idle()
    assert await stored(tools, kind) == good
    if ROWS <= 20_000:
        assert f"Published {good} reviews" in await run(tools, *command, code=1)
        await tools.idle()
        assert await stored(tools, kind) == good


async def test_an_import_into_another_installation_begins_anew(
    tools: Service, servers: Servers, tmp_path: Path
) -> None:
    if servers.is_tansu:
        pytest.skip("two Tansus call themselves by the same name")
    kind, file = new_id("kind"), tmp_path / "reviews.csv"
    expected = write_reviews(file, kind, 20_000)
    checkpoint = tmp_path / "reviews.csv.plaudit-import.json"
    command = ["import", str(file), *COLUMNS]

    def beside_up(kafka: str, name: str) -> dict[str, str]:
        """The environment of commands beside a `plaudit up` with that data folder."""
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
        made = await asyncio.to_thread(run_forked, "init", environment=environment, folder=tmp_path)
        assert made.returncode == 0, made.stderr
        first = subprocess.Popen([sys.executable, "-m", "plaudit", *command], env=environment)
        while not checkpoint.exists():
            assert first.poll() is None
            await asyncio.sleep(0.002)
        first.kill()
        first.wait()
        assert line_of(checkpoint) > 0
    environment = beside_up(servers.kafka, "two")
    done = await asyncio.to_thread(run_forked, *command, environment=environment, folder=tmp_path)
    assert "Going on" not in done.stdout
    await eventually(partial(stored, tools, kind), lambda count: count == 20_000 - len(expected), deadline_s=120)


async def test_a_dry_run_publishes_nothing(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    file = tmp_path / "reviews.csv"
    write_reviews(file, kind, 100)
    before = len(await tools.records("review-submissions"))
    said = await run(tools, "import", str(file), *COLUMNS, "--dry-run", code=1)
    assert "Would publish 99 reviews; 1 rows are bad." in said
    assert "line 102: /rating" in said
    assert len(await tools.records("review-submissions")) == before
    assert [each.name for each in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))] == ["reviews.csv"]


async def test_an_import_used_wrongly(tools: Service, tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    write_reviews(file, "T", 1)
    unmapped, wrong, _ = await asyncio.gather(
        run(tools, "import", str(file), code=2),
        run(tools, "import", str(file), "--map=a", code=2),
        run(tools, "import", str(tmp_path / "none.csv"), code=2),
    )
    assert "No column is entityId, entityType, review, rating" in unmapped
    assert "column=field" in wrong


@pytest.mark.slow
async def test_an_export_is_imported_elsewhere(tools: Service, tmp_path: Path) -> None:
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
    left_out = "Replies, votes, reports, flags and images are not in a table: JSON Lines has them.\n"
    assert said == ["Exported 30 reviews.\n", f"Exported 30 reviews.\n{left_out}"]

    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with running_service(tools.servers, folder) as elsewhere:
        for file in files:
            assert "Published 30 reviews; 0 rows are bad." in await run(elsewhere, "import", str(file))
            await elsewhere.idle()
            assert await contents(elsewhere, kind) == await contents(tools, kind)


async def contents(service: Service, entity_type: str) -> list[Json]:
    async with service.mongo() as database:
        # All but the marks of the records that wrote them, and of moderation that changed nothing.
        names = (
            *("entityType", "entityId", "entityName", "storeId", "userId", "userName", "title", "review", "language"),
            *("ratingHundredths", "status", "source", "createdDate", "modifiedDate"),
        )
        found = database["reviews"].find({"entityType": entity_type}, dict.fromkeys(names, 1))
        return await found.sort("_id").to_list()


@pytest.mark.slow
async def test_a_dead_letter_is_mended_and_replayed_once(tools: Service, tmp_path: Path) -> None:
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

    mended = tmp_path / "mended.json"
    mended.write_text(json.dumps(review))
    one = ("dlq", "replay", "--topic", place[0], "--partition", place[1], "--offset", place[2], "--value", str(mended))
    before = len(await tools.records("review-submissions"))
    dry, half_named = await asyncio.gather(run(tools, *one, "--dry-run"), run(tools, *one[:6], code=2))
    assert dry == "Would replay 1 dead letters.\n"
    assert "--offset" in half_named
    assert len(await tools.records("review-submissions")) == before
    assert await run(tools, *one) == "Replayed 1 dead letters.\n"
    await eventually(partial(stored, tools, kind), lambda count: count == 1)
    again, all_of_them = await asyncio.gather(run(tools, *one), run(tools, "dlq", "replay"))
    assert again == all_of_them == "Replayed 0 dead letters.\n1 were replayed before; --again replays them, too.\n"
    records = await tools.records("review-submissions")
    assert len(records) == before + 1
    (replayed,) = (record for record in records if "x-replayed-from" in dict(record.headers))
    assert (replayed.key, json.loads(replayed.value)) == (f"{kind}:c-1".encode(), review)
    assert [name for name, _ in replayed.headers] == ["trace", "x-replayed-from"]
    assert await run(tools, *one, "--again") == "Replayed 1 dead letters.\n"
    assert len(await tools.records("review-submissions")) == before + 2
    await tools.idle()
    assert await stored(tools, kind) == 1


async def test_the_doctor_finds_a_healthy_service_well(tools: Service) -> None:
    await tools.idle()
    findings = json.loads(await run(tools, "doctor", "--json"))
    told = [each for each in findings if each["check"] != "dead letters" and "PLAUDIT_TEST_" not in each["text"]]
    assert {each["level"] for each in told} == {"ok"}, told
    checks = "mongodb, replica set, clock, indexes, outbox, kafka, topics, kafka clock, lag, dead letters"
    assert set(checks.split(", ")) < {finding["check"] for finding in findings}


async def test_the_doctor_names_what_is_wrong(tools: Service, servers: Servers, tmp_path: Path) -> None:
    broken = Service(servers, tmp_path)
    await run(broken, "init")
    async with broken.mongo() as database:
        await database["reviews"].drop_index("newest")
    await delete_topic(servers, broken.topic("order-events"))
    await broken.publish("review-submissions", Message(None, b"{}"))
    away = Service(Servers(f"127.0.0.1:{free_port()}", f"mongodb://127.0.0.1:{free_port()}", is_tansu=False), tmp_path)
    broken.environment["PLAUDIT_KAFKA__RETENTION_DAYS"] = "8"
    said, unreachable = await asyncio.gather(run(broken, "doctor", code=1), run(away, "doctor", code=1))
    assert "shorter than PLAUDIT_KAFKA__RETENTION_DAYS (8)" in said
    assert "kafka-configs.sh set retention.ms=691200000" in said
    missing = {"indexes": "reviews.newest", "topics": broken.topic("order-events")}
    for check, name in missing.items():
        assert re.search(rf"^fail {check} +missing {name}  → `plaudit init`", said, re.MULTILINE), said
    for server in ("mongodb", "kafka"):
        assert re.search(rf"^fail {server} +does not answer", unreachable, re.MULTILINE), unreachable


@pytest.mark.kafka
async def test_the_doctor_names_a_partition_that_stands(servers: Servers, tmp_path: Path) -> None:
    standing = Service(servers, tmp_path)
    await run(standing, "init")
    raw = batch(record(b"{}", headers=[(b"\xff\xfe", b"")]), time=1_700_000_000_000)
    assert (await produce(servers.kafka, standing.topic("order-events"), 2, raw)).code == 0
    said = await run(standing, "doctor", code=1)
    wanted = "fail progress partition 2 of order-events stands at offset 0, a record of 2023-11-14 22:13:20 UTC"
    assert wanted in " ".join(said.split()), said
