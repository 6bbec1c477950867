"""Archiving of the audit log: each old entry moves into exactly one file, even if a run is interrupted."""

import asyncio
import gzip
import hashlib
import json
import signal
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from bson import ObjectId

from tests.support.forks import ForkedCommand
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually

NOW: Final = datetime.now(UTC).replace(microsecond=0)
OLD: Final = 400
"""Age of old entries, in days."""


@pytest.fixture
async def log(servers: Servers, tmp_path: Path) -> Service:
    """Return a service that doesn't run, so nothing else writes to its audit log."""
    service = Service(servers, tmp_path)
    await service.mark()
    return service


async def fill(service: Service, old: int, young: int = 3) -> set[str]:
    """Insert old and young approvals, edits and deletions of returns; returns the ids of the old ones."""

    def entry(number: int, age_days: int) -> Json:
        at = NOW - timedelta(days=age_days)
        id = ObjectId(ObjectId.from_datetime(at).binary[:4] + number.to_bytes(8, "big"))
        subject, action = (("anna", "edit"), ("moderator", "approve"), ("anna", "delete"))[number % 3]
        about = {"reviewId": f"review-{number}", "entityType": "Product", "entityId": "camera"}
        if action == "delete":
            about = {"returnId": f"return-{number}"}
        rest = {"storeId": None, "reason": "seen \u2028 twice", "commandId": None}
        return {"_id": id, "at": at, "effectiveAt": at, "subject": subject, "action": action, **about, **rest}

    entries = [entry(n, OLD) for n in range(old)]
    async with service.mongo() as database:
        await database["auditLog"].insert_many([*entries, *(entry(n, 10) for n in range(young))])
    return {str(each["_id"]) for each in entries}


async def left(service: Service) -> int:
    async with service.mongo() as database:
        assert await database["auditArchives"].count_documents({}) == 0
        return await database["auditLog"].count_documents({})


def archived(*files: Path) -> list[Any]:
    """Return the entries in these archives."""
    return [json.loads(line) for file in files for line in gzip.open(file)]


@pytest.mark.long
async def test_old_entries_move_to_archive(log: Service, tmp_path: Path) -> None:
    ids = await fill(log, 2_500)
    assert "PLAUDIT_AUDIT__KEEP_DAYS" in (await log.run("audit", "archive", "a.gz", code=2)).stderr
    log.environment["PLAUDIT_AUDIT__KEEP_DAYS"] = "365"
    too_young = (NOW - timedelta(days=300)).isoformat()
    assert "stay" in (await log.run("audit", "archive", "a.gz", "--before", too_young, code=2)).stderr
    stderr = (await log.run("audit", "archive", "no-folder/a.gz", code=2)).stderr
    assert "no-folder is not a folder: create it" in " ".join(stderr.split())
    assert (await left(log), list(tmp_path.glob("a.gz*"))) == (2_503, [])

    result = json.loads((await log.run("audit", "archive", "a.gz", "--json")).stdout)
    file = tmp_path / "a.gz"
    assert result == {"archived": 2_500, "file": str(file), "finished": None}
    assert file.stat().st_mode & 0o077 == 0
    entries = archived(file)
    assert (len(entries), {each["id"] for each in entries}, await left(log)) == (2_500, ids, 3)
    assert entries[1] == {
        **{"id": entries[1]["id"], "at": entries[1]["at"], "kind": "review", "subject": "moderator"},
        **{"action": "approve", "reviewId": "review-1", "returnId": None, "templateName": None, "languageCode": None},
        **{"entityType": "Product", "entityId": "camera", "storeId": None, "reason": "seen \u2028 twice"},
        **{"reasonCode": None, "commandId": None, "fields": [], "letter": None},
    }
    assert datetime.fromisoformat(entries[1]["at"]) == NOW - timedelta(days=OLD)
    assert {each["subject"] for each in entries if each["action"] != "approve"} == {None}

    before = file.read_bytes()
    assert "already" in (await log.run("audit", "archive", "a.gz", code=2)).stderr
    nothing = {"archived": 0, "file": None, "finished": None}
    assert json.loads((await log.run("audit", "archive", "b.gz", "--json")).stdout) == nothing
    interrupted = {
        "_id": "unfinished",
        "file": str(file),
        "sha256": hashlib.sha256(before).hexdigest(),
        "entries": 2_500,
    }
    async with log.mongo() as database:
        await database["auditArchives"].insert_one(interrupted)
    result = json.loads((await log.run("audit", "archive", "b.gz", "--json")).stdout)
    assert result == {**nothing, "finished": {"archived": 2_500, "file": str(file)}}
    assert (file.read_bytes(), sorted(each.name for each in tmp_path.glob("*.gz*"))) == (before, ["a.gz"])


async def test_interrupted_archive_is_required(log: Service, tmp_path: Path) -> None:
    ids = sorted(await fill(log, 6))
    interrupted = {"_id": "unfinished", "file": str(tmp_path / "gone.gz"), "sha256": "0" * 64, "entries": 2}
    async with log.mongo() as database:
        await database["auditArchives"].insert_one(interrupted)
        await database["auditLog"].delete_one({"_id": ObjectId(ids[0])})
    before = ("--before", (NOW - timedelta(days=1 + OLD // 2)).isoformat())
    (tmp_path / "gone.gz").write_bytes(b"another file")
    for name in ("gone.gz", "next.gz"):
        assert "gone.gz" in (await log.run("audit", "archive", name, *before, code=1)).stderr
    assert list(tmp_path.glob("next*")) == []
    await log.run("audit", "archive", "next.gz", *before, "--lost")
    assert ([each["id"] for each in archived(tmp_path / "next.gz")], await left(log)) == (ids[1:], 3)


@pytest.mark.slow
async def test_killed_runs_archive_each_entry_once(log: Service, tmp_path: Path) -> None:
    ids = await fill(log, 30_000)
    before = ("--before", (NOW - timedelta(days=100)).isoformat())
    number = kills = 0

    async def killed_when(condition: Callable[[Path], Awaitable[Any]]) -> None:
        nonlocal number, kills
        number += 1
        file, log_file = tmp_path / f"{number}.gz", tmp_path / f"{number}.log"
        environment = log.command_environment()
        run = ForkedCommand(
            "audit", "archive", file.name, *before, environment=environment, folder=tmp_path, log=log_file
        )

        async def has_reached() -> bool:
            return bool(run.poll() is not None or await condition(file))

        await eventually(has_reached)
        run.send_signal(signal.SIGKILL)
        kills += await asyncio.to_thread(run.wait, 60) == -signal.SIGKILL

    async with log.mongo() as database:
        entries, unfinished = database["auditLog"], database["auditArchives"]

        async def is_begun(file: Path) -> bool:
            return await unfinished.count_documents({"file": str(file)}) > 0

        async def is_removing(_: Path) -> bool:
            return await entries.estimated_document_count() < count

        async def is_drafted(file: Path) -> bool:
            return file.with_name(f"{file.name}.draft").exists()

        async def is_named(_: Path) -> bool:
            return any(tmp_path.glob("*.gz"))

        for condition in (is_drafted, is_begun, is_named, is_removing, is_removing):
            count = await entries.estimated_document_count()
            await killed_when(condition)
            archived_ids = {each["id"] for each in archived(*tmp_path.glob("*.gz"))}
            missing = ids - {str(each["_id"]) async for each in entries.find({}, {"_id": 1})}
            assert missing <= archived_ids, "removed from the log without being archived"
    assert kills >= 3
    await log.run("audit", "archive", "last.gz", *before)
    found = [each["id"] for each in archived(*tmp_path.glob("*.gz"))]
    assert (len(found), set(found), await left(log)) == (len(ids), ids, 3)
