"""Exports under load and during other faults, by a command that is killed now and then."""

import asyncio
from functools import partial
from typing import Any

import orjson

from domain.timestamps import timestamp
from plaudit.processes.waiting import patiently
from storage.database import Database
from tests.chaos.faults import Fault, Stage
from tests.chaos.operating import until_done

FIELDS = ("reviewStatusId", "modifiedDate", "review", "rating")
"""Fields of a row that are compared. One that changed and changed back has another date."""
LONGEST_S = 20.0
"""Seconds within which a command is killed."""


async def export_reviews(stage: Stage) -> None:
    """Export all reviews with `plaudit export`, beside another fault.

    Raises AssertionError: the file lacks a review that existed throughout, has one twice, shows another state of one
    that didn't change, or names an image whose file is missing.
    """
    file = stage.fleet.service.folder / "export.jsonl"
    async with stage.fleet.service.mongo() as database:
        read = partial(patiently, "MongoDB", partial(shown, database))
        before = await read()
        exporting = asyncio.create_task(until_done(stage, LONGEST_S, "export", "-o", str(file)))
        try:
            await stage.disturb()
            await exporting
        finally:
            exporting.cancel()
        unchanged = before.items() & (await read()).items()
    rows = [row for row in map(orjson.loads, file.read_bytes().splitlines()) if "review" in row]
    exported = {row["id"]: tuple(row[name] for name in FIELDS) for row in rows}
    assert len(exported) == len(rows), "an export has reviews twice"
    wrong = [(id, exported.get(id), state) for id, state in unchanged if exported.get(id) != state]
    assert not wrong, f"an export differs in {len(wrong)} of {len(unchanged)} unchanged reviews: {wrong[:5]}"
    images = {f"{image['id']}.jpg" for row in rows for image in row["images"]}
    folder = file.with_name(f"{file.name}.images")
    files = {path.name for path in folder.iterdir()} if folder.exists() else set()
    assert images == files, f"an export has other images than its rows name: {sorted(images ^ files)[:5]}"


async def shown(database: Database) -> dict[str, tuple[Any, ...]]:
    """The fields of each review in the database, as an export shows them."""
    return {
        each["_id"]: (each["status"], timestamp(each["modifiedDate"]), each["review"], each["ratingHundredths"] / 100)
        async for each in database["reviews"].find({"createdDate": {"$ne": None}})
    }


EXPORTS: dict[str, Fault] = {"exported": export_reviews}
