"""An export skips reviews that lack fields, names them, and fails."""

import json

from storage.database import Document
from tests.support.service import Json, Service
from tests.support.stored import REVIEW, WRITTEN


def without(id: str, field: str, **others: object) -> Document:
    return {"_id": id, **{name: value for name, value in REVIEW.items() if name != field}, **others}


async def exported(service: Service, *options: str, code: int) -> tuple[list[str], Json]:
    """Run an export; returns the ids of its reviews and its summary."""
    result = await service.run("export", "--json", *options, code=code)
    summary: Json = json.loads(result.stderr)
    return [json.loads(line)["id"] for line in result.stdout.splitlines()], summary


async def test_damaged_reviews_are_named_and_skipped(stopped_service: Service) -> None:
    async with stopped_service.mongo() as database:
        damaged = [
            without("a", "ratingHundredths"),
            without("b", "createdDate"),
            without("c", "storeId"),
            without("d", "review", storeId="south"),
            {"_id": "e", **REVIEW, "images": 5},
        ]
        others = [{"_id": "deleted", "goneAt": WRITTEN}, {"_id": "w", **REVIEW}]
        await database["reviews"].insert_many([*damaged, *others, {"_id": "x", **REVIEW, "storeId": "south"}])
        ids, summary = await exported(stopped_service, code=1)
        assert (ids, summary["damaged"], summary["damagedIds"]) == (["w", "x"], 5, ["a", "b", "c", "d", "e"])
        # The remaining fields show whether a damaged review matches the filters.
        ids, summary = await exported(stopped_service, "--store", "south", code=1)
        assert (ids, summary["damagedIds"]) == (["x"], ["c", "d"])
        ids, summary = await exported(stopped_service, "--store", "north", "--status", "rejected", code=0)
        assert (ids, summary["damagedIds"]) == ([], [])
        stderr = (await stopped_service.run("export", code=1)).stderr
        assert "Left out 5 damaged reviews: a, b, c, d, e.\n`plaudit migrate` repairs" in stderr
        await database["reviews"].delete_many({"_id": {"$in": [each["_id"] for each in damaged]}})
        ids, summary = await exported(stopped_service, code=0)
        assert (ids, summary["damaged"]) == (["w", "x"], 0)
