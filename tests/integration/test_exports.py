"""Exported reviews are the same after their import into another service, even if the import is killed and resumed."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final
from uuid import NAMESPACE_OID, uuid5

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import Facts, ReasonCode, Reply, Responses, ReviewImage, Source
from storage.images.files import ImageFiles, open_store
from storage.reviews.repository import ReviewRepository
from tests.support.facade import Facade, facade_of, submission
from tests.support.images import shades
from tests.support.messages import moderation
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

REVIEWS: Final = int(os.environ.get("PLAUDIT_TEST_EXPORTED", "500"))
LIMIT_S: Final = 60 + REVIEWS / 500
IMAGED: Final = max(1, REVIEWS // 20)
"""One review in this many has images."""

OBJECTS: Final = max(20, REVIEWS // 100)
STORE: Final = "Archive"
WRITTEN: Final = datetime(2023, 5, 6, 7, 8, 9, 123_000, tzinfo=UTC)
NOW: Final = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def past_reviews(chance: random.Random) -> Iterator[Review]:
    """Yield reviews of all kinds, as accumulated over years."""
    for n in range(REVIEWS):
        status = chance.choice(list(ReviewStatus))
        created = WRITTEN + timedelta(minutes=n, milliseconds=chance.randrange(1_000))
        is_decided = status is not ReviewStatus.NEW or chance.random() < 0.2
        modified = created + timedelta(seconds=chance.randrange(1, 10**6)) if is_decided else created
        is_coded = status is ReviewStatus.REJECTED and chance.random() < 0.7
        yield Review(
            id=f"r-{n:07}",
            entity=Entity("Product", f"p-{chance.randrange(OBJECTS)}"),
            entity_name=chance.choice([None, "Camera", "=Lens\u2028"]),
            store_id=chance.choice([None, STORE]),
            user_id=chance.choice([None, f"user-{n}"]),
            user_name=chance.choice([None, "", "Zoë"]),
            title=chance.choice([None, "", "Good\x1b"]),
            text=f"Review {n}, long enough to have a language of its own.\r\n\t'{'x' * chance.randrange(300)}",
            rating=chance.choice([100, 225, 300, 450, 475, 500]),
            created=created,
            modified=modified,
            status=status,
            moderator=chance.choice([None, "eve"]) if is_decided else None,
            moderation_reason=chance.choice([None, "Why"]) if is_decided else None,
            reason_code=chance.choice(list(ReasonCode)) if is_coded else None,
            facts=Facts(
                verified_purchase=chance.random() < 0.5,
                incentivized=chance.random() < 0.1,
                source=chance.choice([None, *Source]),
                language=chance.choice([None, "de", "pt-BR"]),
            ),
            flags=chance.choice([(), (), ("links", "words")]),
            reply=Reply("Thanks", chance.choice([None, "Shop"]), modified, NOW) if n % 5 == 0 else None,
            responses=Responses(*votes_on(n), reports=int(n % 7 == 0)),
            images=images_of(n),
        )


def votes_on(n: int) -> tuple[int, int]:
    """Return the numbers of helpful and of other votes on this review."""
    if n == 10:
        return 700, 301
    return (n % 3, n % 2) if n % 4 == 0 else (0, 0)


def images_of(n: int) -> tuple[ReviewImage, ...]:
    """Return the images of this review: some are hidden, some not ready."""
    if n % IMAGED:
        return ()
    ids = [str(uuid5(NAMESPACE_OID, f"{n}/{each}")) for each in range(1 + n // IMAGED % 4)]
    return tuple(ReviewImage(id, is_hidden=each == 1, is_pending=each == 3) for each, id in enumerate(ids))


async def fill_images(service: Service, database: AsyncDatabase[Json], review: Review) -> None:
    """Store the images of a review, as files and as documents."""
    files = ImageFiles(open_store(str(service.folder / "images")))
    for number, image in enumerate(review.images):
        size = (90 * number + 160, 120)
        file = shades(int(image.id[:6], 16), size, quality=82, optimize=True)
        document: Json = {"_id": image.id, "state": "awaited", "at": NOW, "reviewId": review.id}
        if not image.is_pending:
            await files.put(image.id, [file, file])
            uploader = {"uploader": review.user_id or "lender"} if number else {}
            document |= {"state": "ready", "width": size[0], "height": size[1], **uploader}
        await database["images"].insert_one(document)


def votes_and_reports(n: int) -> tuple[list[Json], list[Json]]:
    """Return the votes on a review and the reports about it, as MongoDB documents."""
    id, (helpful, others) = f"r-{n:07}", votes_on(n)
    votes: list[Json] = [
        {"_id": {"reviewId": id, "userId": f"voter-{voter:04}"}, "helpful": voter < helpful, "at": [0, 0, 0]}
        for voter in range(helpful + others)
    ]
    withdrawn: Json = {"_id": {"reviewId": id, "userId": "withdrawn"}, "helpful": None, "at": [0, 0, 0], "goneAt": NOW}
    report: Json = {"reviewId": id, "reason": "spam", "at": WRITTEN, "name": None, "userId": None}
    forgotten = {**report, "_id": f"{n}-open", "explanation": "", "email": None, "emailKey": None, "isOpen": True}
    settled = {
        **report,
        "_id": f"{n}-settled",
        "explanation": "It is",
        "email": "a@b.example",
        "emailKey": "a@b.example",
    }
    settled["settled"] = {"action": "approve", "moderator": None, "at": NOW}
    return [*votes, withdrawn] if n % 9 == 0 else votes, [forgotten, settled] if n % 7 == 0 else []


async def fill(service: Service) -> None:
    """Fill a database that no worker uses."""
    async with service.mongo() as database:
        await database["stores"].insert_one({"_id": STORE, "name": "The archive"})
        reviews = list(past_reviews(random.Random(7)))
        for start in range(0, len(reviews), 1_000):
            assert not await ReviewRepository(database).insert(reviews[start : start + 1_000])
            feedback = [votes_and_reports(n) for n in range(start, min(start + 1_000, REVIEWS))]
            await database["votes"].insert_many([vote for votes, _ in feedback for vote in votes])
            await database["reports"].insert_many([report for _, reports in feedback for report in reports])
        for review in reviews:
            await fill_images(service, database, review)


def import_into(service: Service, file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "plaudit", "import", str(file)]
    environment = service.command_environment()
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


async def kill_half_way(service: Service, file: Path) -> None:
    """Start an import and kill it after half of the file, again if it finished before that was noticed."""
    checkpoint, half = file.with_name(file.name + ".plaudit-import.json"), file.stat().st_size / 2

    def is_half_done() -> bool:
        try:
            return bool(json.loads(checkpoint.read_text())["offset"] >= half)
        except FileNotFoundError:
            return False

    for _ in range(10):
        process = import_into(service, file)
        while process.poll() is None:
            if is_half_done():
                process.kill()
                break
            await asyncio.sleep(0.001)
        output, _ = await asyncio.to_thread(process.communicate)
        if process.returncode != 0:
            assert process.returncode == -signal.SIGKILL, output.decode()
            return
    raise AssertionError("each import finished before its half was noticed")


async def ratings(facade: Facade) -> list[Json]:
    ids = [f"p-{n}" for n in range(OBJECTS)]
    found = [await facade.ratings(*ids[start : start + 200]) for start in range(0, OBJECTS, 200)]
    return [row for rows in found for row in rows]


@pytest.mark.slow
async def test_export_survives_import(servers: Servers, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("origin", "copy")]
    for folder in folders:
        folder.mkdir()
    origin, first, second = Service(servers, folders[0]), tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    await origin.run("init")
    await fill(origin)
    began = monotonic()
    await origin.run("export", "-o", str(first), limit_s=LIMIT_S)
    exported_s = monotonic() - began
    assert len(first.read_bytes().splitlines()) >= REVIEWS
    images = [image for n in range(REVIEWS) for image in images_of(n) if not image.is_pending]

    async with running_service(servers, folders[1]) as copy, facade_of(copy) as facade:
        await facade.command("PUT", f"/api/stores/{STORE}", {"name": "The archive"})
        began = monotonic()
        await kill_half_way(copy, first)
        resumed = import_into(copy, first)
        output, _ = await asyncio.to_thread(resumed.communicate)
        assert resumed.returncode == 0, output.decode()
        assert b"Continuing after line" in output
        assert f"Published {REVIEWS:,} reviews; 0 bad rows." in output.decode()
        published_s = monotonic() - began
        await copy.idle(deadline_s=90 + REVIEWS / 20)
        imported_s = monotonic() - began
        await eventually(partial(copy.lag, "image-uploads"), lambda lag: lag == 0, deadline_s=300)
        await copy.run("export", "-o", str(second), limit_s=LIMIT_S)
        assert second.read_bytes() == first.read_bytes()
        assert files_beside(second) == files_beside(first)
        assert len(files_beside(first)) == len(images)
        assert "Every rating matches" in (await copy.run("ratings", "verify")).stdout
        imported_ratings = await ratings(facade)
        assert sum(row["reviewCount"] for row in imported_ratings) == approved(first)
        assert not await copy.dead_letters()
        # Importing again, also from a CSV file, changes nothing.
        if REVIEWS <= 2_000:
            table = tmp_path / "table.csv"
            await copy.run("export", "-o", str(table))
            for file in (first, table):
                await copy.run("import", str(file))
            await copy.idle()
            await copy.run("export", "-o", str(second), limit_s=LIMIT_S)
            assert second.read_bytes() == first.read_bytes()
            assert files_beside(second) == files_beside(first)
            assert await ratings(facade) == imported_ratings
    took = f"exported in {exported_s:.0f} s, published in {published_s:.0f} s, all in {imported_s:.0f} s"
    sys.stdout.write(f"{REVIEWS} reviews: {took}\n")


@pytest.mark.slow
async def test_empty_texts_survive_import(
    servers: Servers, own_service: Service, own_facade: Facade, product: str, tmp_path: Path
) -> None:
    first, second, folder = (tmp_path / name for name in ("first.jsonl", "second.jsonl", "copy"))
    folder.mkdir()
    (id,) = await own_facade.submit(submission(product))
    await own_facade.submit(submission(product, id=id, EntityName="", title="", userName=""))
    await own_service.publish("moderation-commands", moderation("reject", id, moderator="", reason=""))
    await eventually(partial(own_facade.review, id), lambda review: review["reviewStatus"] == "Rejected")
    await own_service.run("export", "-o", str(first))
    row = json.loads(first.read_bytes())
    empty = ("entityName", "title", "userName", "moderator", "moderationReason")
    assert {name: row[name] for name in empty} == dict.fromkeys(empty, "")
    async with running_service(servers, folder) as copy:
        await copy.run("import", str(first))
        await copy.idle()
        await copy.run("export", "-o", str(second))
    assert second.read_bytes() == first.read_bytes()


def files_beside(file: Path) -> dict[str, bytes]:
    """Return the image files of an export by name."""
    return {each.name: each.read_bytes() for each in file.with_name(f"{file.name}.images").iterdir()}


def approved(file: Path) -> int:
    with file.open() as lines:
        return sum('"reviewStatus":"Approved"' in line for line in lines)
