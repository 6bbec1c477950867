"""The tools of operators: import, export, dead letters, doctor."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.facade import new_id, submission
from tests.service import Json, Message, Servers, Service, eventually, running_service

pytestmark = pytest.mark.kafka

ROWS: Final = int(os.environ.get("TEST_IMPORT_ROWS", "20000"))
"""How many rows the large import has, one in a hundred bad."""


@pytest.fixture(scope="module")
async def tools(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    """A service for the tests of this module, which use object types of their own."""
    async with running_service(servers, tmp_path_factory.mktemp("tools")) as service:
        yield service


async def run(service: Service, *command: str, code: int = 0) -> str:
    """Run a command that must end with that code, and return what it says."""
    done = await asyncio.to_thread(service.run, *command)
    assert done.returncode == code, done.stdout + done.stderr
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
    while (line := json.loads(checkpoint.read_text())["line"] if checkpoint.exists() else 0) < ROWS * 0.8:
        assert first.poll() is None, first.communicate()
        await asyncio.sleep(0.002)
    first.kill()
    assert first.wait() != 0
    assert line < 2 * ROWS
    # As if it had been killed between its report and its checkpoint.
    with report.open("a") as out:
        out.write('{"line": 1, "reason": "half')

    begin = time.monotonic()
    second = start()
    (said, _), usage = await asyncio.to_thread(second.communicate), await asyncio.to_thread(_children_peak_mb)
    print(f"second run {time.monotonic() - begin:.1f} s, peak {usage:.0f} MB")
    assert second.returncode == 1, said.decode()
    assert b"Going on behind line" in said
    good = ROWS - len(expected)
    assert f"Published {good} reviews; {len(expected)} rows are bad." in said.decode()
    assert [(r["line"], r["reason"]) for r in map(json.loads, report.read_text().splitlines())] == expected
    assert not checkpoint.exists()
    await eventually(partial(stored, tools, kind), lambda count: count >= good, deadline_s=120)
    await tools.idle()
    assert await stored(tools, kind) == good
    if ROWS <= 20_000:
        assert f"Published {good} reviews" in await run(tools, *command, code=1)
        await tools.idle()
        assert await stored(tools, kind) == good


def _children_peak_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


async def test_a_dry_run_publishes_nothing(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    file = tmp_path / "reviews.csv"
    write_reviews(file, kind, 100)
    before = len(await tools.records("review-submissions"))
    said = await run(tools, "import", str(file), *COLUMNS, "--dry-run", code=1)
    assert "Would publish 99 reviews; 1 rows are bad." in said
    assert "line 102: /rating" in said
    assert len(await tools.records("review-submissions")) == before
    assert [each.name for each in tmp_path.iterdir()] == ["reviews.csv"]


async def test_an_import_used_wrongly(tools: Service, tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    write_reviews(file, "T", 1)
    assert "No column is entityId, entityType, review, rating" in await run(tools, "import", str(file), code=2)
    assert "column=field" in await run(tools, "import", str(file), "--map=a", code=2)
    await run(tools, "import", str(tmp_path / "none.csv"), code=2)


@pytest.mark.parametrize("format", ["jsonl", "csv"])
async def test_an_export_is_imported_elsewhere(tools: Service, tmp_path: Path, format: str) -> None:
    kind = new_id("kind")
    source = tmp_path / "source.jsonl"
    rows = [submission(f"c-{n}", 1 + n % 5, EntityType=kind, review=f'Line "{n}"\r\n,é') for n in range(30)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    await run(tools, "import", str(source))
    await eventually(partial(stored, tools, kind), lambda count: count == 30)
    file = tmp_path / f"export.{format}"
    assert "Exported 30 reviews" in await run(tools, "export", "-o", str(file), "--entity-type", kind)
    assert "Exported 0 reviews" in await run(tools, "export", "--entity-type", kind, "--status", "Approved")

    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with running_service(tools.servers, folder) as elsewhere:
        assert "Published 30 reviews; 0 rows are bad." in await run(elsewhere, "import", str(file))
        await eventually(partial(stored, elsewhere, kind), lambda count: count == 30)
        assert await contents(elsewhere, kind) == await contents(tools, kind)


async def contents(service: Service, entity_type: str) -> list[Json]:
    async with service.mongo() as database:
        found = database["reviews"].find({"entityType": entity_type}, {"createdDate": 0, "modifiedDate": 0})
        return await found.sort("_id").to_list()


async def test_a_dead_letter_is_mended_and_replayed_once(tools: Service, tmp_path: Path) -> None:
    kind = new_id("kind")
    review = submission("c-1", EntityType=kind)
    bad = json.dumps({**review, "rating": 9}).encode()
    await tools.publish("review-submissions", Message(f"{kind}:c-1", bad, [("trace", b"abc")]))
    listed = partial(run, tools, "dlq", "list", "--topic", "review-submissions", "--code", "invalid-message")
    line = next(text for text in (await eventually(listed, lambda said: kind in said)).splitlines() if kind in text)
    topic, partition, offset, _, code, *_ = line.split()
    assert (topic, code) == (tools.topic("review-submissions.dlq"), "invalid-message")
    said = await run(tools, "dlq", "show", "review-submissions", partition, offset)
    assert '"rating": 9' in said
    assert "header     trace: abc" in said
    assert "header     x-error-code: invalid-message" in said
    await run(tools, "dlq", "show", topic, partition, "999", code=1)
    await run(tools, "dlq", "list", "--topic", "events", code=2)

    mended = tmp_path / "mended.json"
    mended.write_text(json.dumps(review))
    one = ("dlq", "replay", "--topic", topic, "--partition", partition, "--offset", offset, "--value", str(mended))
    before = len(await tools.records("review-submissions"))
    assert "Would replay 1 dead letters." in await run(tools, *one, "--dry-run")
    assert len(await tools.records("review-submissions")) == before
    assert "Replayed 1 dead letters." in await run(tools, *one)
    await eventually(partial(stored, tools, kind), lambda count: count == 1)
    assert "Replayed 0 dead letters.\n1 were replayed before" in await run(tools, *one)
    assert "Replayed 0 dead letters." in await run(tools, "dlq", "replay")
    records = await tools.records("review-submissions")
    assert len(records) == before + 1
    (replayed,) = (record for record in records if dict(record.headers).get("x-replayed-from"))
    assert (replayed.key, json.loads(replayed.value)) == (f"{kind}:c-1".encode(), review)
    assert [name for name, _ in replayed.headers] == ["trace", "x-replayed-from"]
    assert "Replayed 1 dead letters." in await run(tools, *one, "--again")
    await tools.idle()
    assert await stored(tools, kind) == 1
