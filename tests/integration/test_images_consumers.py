"""Images as the consumers of one worker process them, with records delayed in Kafka for various times."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from shutil import rmtree
from typing import Any, Self
from unittest.mock import AsyncMock
from uuid import uuid4

import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore
from pydantic import SecretStr

from consumers.images.consumer import UploadConsumer
from consumers.images.sweeping import forget_images, sweep_images
from domain.commands import Outcome
from domain.findings import Finding, Level
from domain.images import SIZES, UNUSED_FOR, UploadRefusal, upload_digest
from domain.reviews import ReviewStatus
from domain.reviews_refusals import Refusal
from messaging.decoding import Received
from messaging.images import IMAGE_COMMAND, IMAGE_UPLOAD, ImageUpload, image_command_in
from plaudit.config import Settings
from plaudit.server_settings import ImageSettings, MongoSettings
from plaudit.tools.doctor.images import check_images
from storage.images.files import MARK, ImageFiles, open_store
from storage.mending import Mender
from storage.outcomes import ItemOutcome
from storage.privacy.repository import PersonalData
from storage.reviews.facts import images_from
from tests.support.consumers import Desk
from tests.support.facade import new_id
from tests.support.images import picture
from tests.support.records import Record
from tests.support.service import Json, Servers


def read_up_to(now: datetime) -> Callable[[], Awaitable[datetime]]:
    """Report that all submissions up to this time have been read."""
    return AsyncMock(return_value=now)


def upload_of(desk: Desk, id: str) -> Received[ImageUpload]:
    """Return the message of an upload of `picture()`, as its consumer receives it."""
    (record,) = desk.records({"id": id, "digest": upload_digest(picture())})
    return Received(record, IMAGE_UPLOAD.validate_json(record.value or b""))


@pytest.mark.long
async def test_upload_delayed_for_days_is_kept_for_its_submission(desk: Desk) -> None:
    now = datetime.now(UTC)
    image = await desk.upload(picture(), at=round((now - timedelta(days=2)).timestamp() * 1_000))
    await sweep_images(desk.services, now, read_up_to(now))
    review = desk.review(images=[image])
    await desk.submit(desk.records(review))
    assert [each["id"] for each in (await desk.stored(review["id"])).get("images", ())] == [image]


async def test_edit_to_empty_images_is_not_a_repeat_of_one_without_images_field(desk: Desk) -> None:
    review = desk.review(images=[await desk.upload(picture())])
    first = {name: value for name, value in review.items() if name != "images"}
    await desk.submit(desk.records(first))
    await desk.submit(desk.records(review))
    assert (await desk.stored(review["id"]))["images"]
    await desk.submit(desk.records({**first, "images": []}))
    assert "images" not in await desk.stored(review["id"])


async def test_many_images_are_removed_in_batches(desk: Desk) -> None:
    long_ago, now = datetime.now(UTC) - timedelta(days=30), datetime.now(UTC)
    images = desk.database["images"]
    gone = {"state": "gone", "goneAt": long_ago, "unswept": True}
    await images.insert_many([{"_id": str(uuid4()), **gone} for _ in range(501)])
    for left in (1, 0):
        await sweep_images(desk.services, now, read_up_to(now))
        assert await images.count_documents({"unswept": True}) == left
    for left, is_done in ((1, False), (0, True)):
        assert await forget_images(desk.services, now, timedelta(days=21)) is is_done
        assert await images.count_documents({}) == left


async def test_unremovable_file_does_not_block_others(desk: Desk, tmp_path: Path) -> None:
    """A file under a legal hold, also if it is the only one to remove."""
    files, held = ImageFiles(open_store(str(tmp_path))), str(uuid4())
    now = datetime.now(UTC).replace(microsecond=0)
    desk.services.image_files = files
    unused = await desk.upload(picture(), at=round((now - timedelta(days=2)).timestamp() * 1_000))
    for size in SIZES:
        (tmp_path / "images" / held / str(size) / "a folder in its place").mkdir(parents=True)
    gone = {"_id": held, "state": "gone", "goneAt": now - timedelta(days=30), "unswept": True}
    await desk.database["images"].insert_one(gone)
    await files.put_upload(str(uuid4()), "abc", b"upload")
    await sweep_images(desk.services, now + timedelta(days=2), read_up_to(now + timedelta(days=2)))
    assert await desk.database["images"].find_one({"_id": unused, "state": "gone"})
    assert await forget_images(desk.services, now + timedelta(days=22), timedelta(days=21))
    assert not [*(tmp_path / "incoming").rglob("abc")]
    tried = gone | {"unswept": now + timedelta(days=2)}
    assert await desk.database["images"].find_one({"_id": held}) == tried


async def test_unremovable_files_take_turns_with_others(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if a whole batch of a turn is under a legal hold."""
    files, held = ImageFiles(open_store(str(tmp_path))), [str(uuid4()) for _ in range(2)]
    desk.services.image_files, now = files, datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setattr("consumers.images.sweeping._AT_ONCE", len(held))
    gone = {"state": "gone", "goneAt": now - timedelta(days=30)}
    for id in held:
        (tmp_path / "images" / id / str(SIZES[0]) / "a folder in its place").mkdir(parents=True)
        await desk.database["images"].insert_one({"_id": id, **gone})
    await files.put_upload(str(uuid4()), "abc", b"upload")
    for is_done in (False, True):
        assert await forget_images(desk.services, now + timedelta(days=22), timedelta(days=21)) is is_done
    assert not [*(tmp_path / "incoming").rglob("abc")]
    unused = await desk.upload(picture())
    await desk.services.images.give_up_unused(now + timedelta(days=1))
    await desk.database["images"].update_many({"_id": {"$in": held}}, {"$set": {"unswept": True}})
    for later in (timedelta(0), timedelta(seconds=5)):
        await sweep_images(desk.services, now + later, read_up_to(now))
    assert await files.get(unused, SIZES[0]) is None
    rmtree(tmp_path / "images" / held[0])
    await sweep_images(desk.services, now + timedelta(hours=2), read_up_to(now))
    assert await forget_images(desk.services, now, timedelta(days=21))
    assert [each async for each in desk.database["images"].find({"_id": {"$in": held}}, {"unswept": 1})] == [
        {"_id": held[1], "unswept": now + timedelta(hours=2)}
    ]


class UnreachableFiles(ImageFiles):
    """An image store that is unreachable."""

    async def has_upload(self, id: str) -> bool:
        raise GenericError("no route to host")


async def test_reviews_are_stored_while_image_store_is_unavailable(desk: Desk) -> None:
    """Among them is one with a made-up image, which housekeeping finds once the store is back."""
    files, waiting, now = desk.services.image_files, str(uuid4()), datetime.now(UTC)
    await files.put_upload(waiting, upload_digest(picture()), picture())
    desk.services.image_files = UnreachableFiles(MemoryStore())
    reviews = [desk.review(images=[str(uuid4())]), desk.review(images=[waiting, str(uuid4())]), desk.review()]
    await desk.submit(desk.records(*reviews))
    assert [len(images_from(await desk.stored(each["id"]))) for each in reviews] == [1, 2, 0]
    desk.services.image_files = files
    for later, left in ((UNUSED_FOR / 2, [1, 2, 0]), (UNUSED_FOR * 2, [0, 1, 0])):
        await forget_images(desk.services, now + later, timedelta(days=21))
        assert [len(images_from(await desk.stored(each["id"]))) for each in reviews] == left
    await desk.upload(picture(), id=waiting)
    (after,) = images_from(await desk.stored(reviews[1]["id"]))
    assert (after.id, after.is_pending) == (waiting, False)


async def test_no_upload_is_lost_in_unmarked_store(desk: Desk, tmp_path: Path) -> None:
    """As with an unmounted volume: uploads that wait in Kafka are rebuilt once it is mounted."""
    files, elsewhere = (ImageFiles(open_store(str(tmp_path / name))) for name in ("mounted", "empty"))
    desk.services.image_files, waiting, made_up = files, str(uuid4()), str(uuid4())
    await desk.upload(picture())
    await files.put_upload(waiting, upload_digest(picture()), picture())
    upload = upload_of(desk, waiting)
    review, now = desk.review(images=[waiting, made_up]), datetime.now(UTC)
    desk.services.image_files = elsewhere
    await desk.submit(desk.records(review))
    for _ in range(2):
        with pytest.raises(GenericError, match="isn't mounted"):
            await UploadConsumer(desk.services)([upload])
        with pytest.raises(GenericError, match="isn't mounted"):
            await forget_images(desk.services, now + UNUSED_FOR * 2, timedelta(days=21))
        # Uploads in the meantime don't make this the right store either, and no image is written into it.
        await elsewhere.put_upload(id := str(uuid4()), upload_digest(picture()), picture())
        with pytest.raises(GenericError, match="isn't mounted"):
            await UploadConsumer(desk.services)([upload_of(desk, id)])
        assert await elsewhere.get(id, SIZES[0]) is None
    desk.services.image_files = files
    await UploadConsumer(desk.services)([upload])
    await forget_images(desk.services, now + UNUSED_FOR * 2, timedelta(days=21))
    assert [(each.id, each.is_pending) for each in images_from(await desk.stored(review["id"]))] == [(waiting, False)]


async def test_unmarked_store_is_neither_listed_nor_cleaned(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of removed images are kept for removal until their store is back."""
    files, elsewhere = (ImageFiles(open_store(str(tmp_path / name))) for name in ("mounted", "empty"))
    desk.services.image_files, now = files, datetime.now(UTC)
    image = await desk.upload(picture())
    later, days = now + timedelta(days=22), timedelta(days=21)
    await desk.services.images.give_up_unused(now + timedelta(days=2))
    desk.services.image_files = elsewhere
    listed = AsyncMock()
    for name in ("has_upload", "remove_old_uploads"):
        monkeypatch.setattr(elsewhere, name, listed)
    for turn in (sweep_images(desk.services, now, read_up_to(now)), forget_images(desk.services, now, days)):
        with pytest.raises(GenericError, match="isn't mounted"):
            await turn
    assert (listed.await_count, await files.get(image, SIZES[0]) is None) == (0, False)
    with pytest.raises(GenericError, match="isn't mounted"):
        await forget_images(desk.services, later, days)
    assert await desk.services.images.get(image) is not None
    desk.services.image_files = files
    await sweep_images(desk.services, now, read_up_to(now))
    assert await files.get(image, SIZES[0]) is None


async def test_doctor_reports_unmarked_store(desk: Desk, servers: Servers, tmp_path: Path) -> None:
    """The same holds for a missing folder, but no longer once an operator has confirmed that it is the right one."""

    async def examined(name: str) -> Finding:
        mongo = MongoSettings(uri=SecretStr(servers.mongo), database=desk.database.name)
        images = ImageSettings(store=str(tmp_path / name))
        (finding,) = [each async for each in check_images(Settings(mongo=mongo, images=images))]
        return finding

    desk.services.image_files = ImageFiles(open_store(str(tmp_path / "mounted")))
    (tmp_path / "empty").mkdir()
    assert (await examined("empty")).level is Level.OK
    await desk.upload(picture())
    assert (await examined("mounted")).level is Level.OK
    for name in ("empty", "missing"):
        finding = await examined(name)
        assert (finding.level, MARK in finding.text, MARK in finding.advice) == (Level.FAIL, True, True)
    (tmp_path / "empty" / MARK).parent.mkdir()
    (tmp_path / "empty" / MARK).touch()
    assert (await examined("empty")).level is Level.OK
    assert not (tmp_path / "missing").exists()


async def test_store_of_version_without_marks_is_recognised_by_its_images(desk: Desk, tmp_path: Path) -> None:
    """Another store is not marked instead, and loses no upload; one image may be missing from the right one."""
    old, elsewhere = (ImageFiles(open_store(str(tmp_path / name))) for name in ("mounted", "empty"))
    desk.services.image_files = old
    images = [await desk.upload(picture()) for _ in range(2)]
    await desk.submit(desk.records(desk.review(images=images)))
    (tmp_path / "mounted" / MARK).unlink()
    await desk.database["imageStore"].delete_one({})
    await old.remove(images[:1])
    id, digest = str(uuid4()), upload_digest(picture())
    upload = upload_of(desk, id)
    desk.services.image_files = elsewhere
    for _ in range(2):
        with pytest.raises(GenericError, match="isn't mounted"):
            await UploadConsumer(desk.services)([upload])
        await elsewhere.put_upload(id, digest, picture())
    desk.services.image_files = old
    await old.put_upload(id, digest, picture())
    await UploadConsumer(desk.services)([upload])
    assert await old.is_marked()
    assert not await elsewhere.is_marked()


async def test_upload_missing_from_marked_store_is_lost(desk: Desk) -> None:
    await desk.upload(picture())
    await UploadConsumer(desk.services)([upload_of(desk, id := str(uuid4()))])
    stored = await desk.services.images.get(id)
    assert stored is not None
    assert stored.refusal is UploadRefusal.LOST


@pytest.mark.parametrize("via", ["widget", None])
async def test_acknowledged_review_is_stored_without_image_refused_later(desk: Desk, via: str | None) -> None:
    """In either order of reading the topics. An upstream system has acknowledged nothing, so its review is refused."""
    for is_before in (True, False):
        image, other = str(uuid4()), await desk.upload(picture(), uploader="berta")
        await desk.services.image_files.put_upload(image, upload_digest(b"no picture"), b"no picture")
        reviews = [desk.review(images=[image], via=via), desk.review(userId="anna", images=[image, other], via=via)]
        if is_before:
            await desk.upload(b"no picture", id=image)
        await desk.submit(desk.records(*reviews))
        if not is_before:
            await desk.upload(b"no picture", id=image)
        stored = [(await desk.stored(each["id"])).get("refused") for each in reviews]
        assert stored[0] == (Refusal.REFUSED_IMAGE if is_before and via is None else None)
        assert stored[1] in ({Refusal.IMAGE_OF_ANOTHER} if via else {Refusal.REFUSED_IMAGE, Refusal.IMAGE_OF_ANOTHER})
        assert not (await desk.stored(reviews[0]["id"])).get("images")


async def test_damaged_review_does_not_keep_others_waiting_for_images(desk: Desk) -> None:
    files, now = desk.services.image_files, datetime.now(UTC)
    desk.services.image_files = UnreachableFiles(MemoryStore())
    damaged, review = [desk.review(images=[str(uuid4())]) for _ in range(2)]
    for each in (damaged, review):
        await desk.submit(desk.records(each))
    await desk.database["reviews"].update_one({"_id": damaged["id"]}, {"$set": {"images": "none"}})
    desk.services.image_files = files
    assert await forget_images(desk.services, now + UNUSED_FOR * 2, timedelta(days=21))
    assert (await desk.stored(review["id"]))["images"] == []


async def test_erased_image_is_removed_from_review_that_claims_it_meanwhile(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, data = await desk.upload(picture(), uploader="anna"), PersonalData(desk.database, "anna")
    monkeypatch.setattr(PersonalData, "images", AsyncMock(return_value=await data.images()))
    review = desk.review(userId=None, images=[image])
    await desk.submit(desk.records(review))
    assert await data.forget_images() == 1
    assert (await desk.stored(review["id"]))["images"] == []


@pytest.mark.parametrize("cause", ["deleted", "edited", "given-up"])
async def test_upload_read_after_its_image_was_removed_has_an_outcome(desk: Desk, cause: str) -> None:
    image, digest, now = str(uuid4()), upload_digest(picture()), datetime.now(UTC)
    await desk.services.image_files.put_upload(image, digest, picture())
    review = desk.review(images=[image])
    await desk.submit(desk.records(review))
    expected: tuple[Outcome, str | None] = (Outcome.NOT_FOUND, None)
    if cause == "deleted":
        await desk.moderate(("delete", review["id"]))
    elif cause == "edited":
        await desk.submit(desk.records({**review, "images": []}))
    else:
        await desk.upload(picture())  # marks the image store
        await desk.services.image_files.remove_upload(image, digest)
        await forget_images(desk.services, now + UNUSED_FOR * 2, timedelta(days=21))
        expected = (Outcome.REFUSED, UploadRefusal.LOST)
    await desk.read_uploads(desk.records({"id": image, "digest": digest, "commandId": "upload"}))
    answers = await desk.services.outcomes.answers([("upload", image)])
    assert [(each.outcome, each.reason) for each in answers.values()] == [expected]
    assert not await desk.services.image_files.has_upload(image)


async def test_redelivered_upload_keeps_its_outcome(desk: Desk) -> None:
    image = await desk.upload(picture(), commandId="upload")
    review = desk.review(images=[image])
    await desk.submit(desk.records(review))
    await desk.moderate(("delete", review["id"]))
    await desk.upload(picture(), id=image, commandId="upload")
    assert await desk.outcomes(image, "upload") == [Outcome.APPLIED]


@pytest.mark.parametrize("first", [picture(), b"no picture"], ids=["ready", "refused"])
async def test_another_file_with_the_id_of_a_settled_image_is_refused(desk: Desk, first: bytes) -> None:
    """As with an Idempotency-Key that is older than the outcome of its command. The same file isn't refused for it."""
    image = await desk.upload(first)
    answers = list[ItemOutcome]()
    for content in (picture(colour="blue"), first):
        await desk.upload(content, id=image, commandId=(command_id := new_id("upload")))
        answers += (await desk.services.outcomes.answers([(command_id, image)])).values()
    as_before = (Outcome.REFUSED, "image-unreadable") if first == b"no picture" else (Outcome.APPLIED, None)
    assert [(each.outcome, each.reason) for each in answers] == [(Outcome.REFUSED, "idempotency-key-reused"), as_before]


async def test_image_settled_by_an_earlier_version_takes_any_file(desk: Desk) -> None:
    image = await desk.upload(picture())
    await desk.database["images"].update_one({"_id": image}, {"$unset": {"digest": ""}})
    await desk.upload(picture(colour="blue"), id=image, commandId="upload")
    assert await desk.outcomes(image, "upload") == [Outcome.APPLIED]


async def test_files_written_beside_a_removal_are_removed_once_their_upload_is_read_again(desk: Desk) -> None:
    """As by a worker that was killed after it had written them."""
    image, review, now = await desk.upload(picture()), desk.review(), datetime.now(UTC)
    await desk.submit(desk.records({**review, "images": [image]}))
    await desk.moderate(("delete", review["id"]))
    await sweep_images(desk.services, now, read_up_to(now))
    await desk.services.image_files.put(image, [b"large", b"small"])
    await desk.upload(picture(), id=image)
    await sweep_images(desk.services, now, read_up_to(now))
    assert await desk.services.image_files.get(image, SIZES[0]) is None


async def test_upload_whose_image_is_removed_while_it_is_rebuilt_is_not_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, review = str(uuid4()), desk.review()

    async def rebuilt(*args: Any, **options: Any) -> UploadRefusal:
        await desk.moderate(("delete", review["id"]))
        return UploadRefusal.UNREADABLE

    monkeypatch.setattr("consumers.images.consumer.rebuild", rebuilt)
    await desk.services.image_files.put_upload(image, upload_digest(picture()), picture())
    await desk.submit(desk.records({**review, "images": [image]}))
    await desk.upload(picture(), id=image, commandId="upload")
    assert await desk.outcomes(image, "upload") == [Outcome.NOT_FOUND]


def command(action: str, review: Json, image: str, id: str | None = None) -> Json:
    """Return a moderator's command about an image of a review."""
    fields = {"action": action, "reviewId": review["id"], "imageId": image, "moderator": "mona", "reason": "a face"}
    return fields | ({"commandId": id} if id else {})


async def park_unchecked(desk: Desk, record: Record) -> None:
    """Park a command, like a worker that stopped before it checked again."""
    waiting = image_command_in(Received(record, IMAGE_COMMAND.validate_json(record.value or b"")))
    await desk.services.parked_image_commands.park([waiting])


@pytest.mark.parametrize("is_edit", [False, True])
async def test_commands_wait_until_a_review_has_their_image(desk: Desk, is_edit: bool) -> None:
    image, review = await desk.upload(picture()), desk.review()
    if is_edit:
        await desk.submit(desk.records(review))
    early = desk.records(*(command(each, review, image, each) for each in ("hide", "show")))
    early += desk.records(command("hide", review, image, "again"))
    for records in (early[:1], early, early[1:]):
        await desk.command_images(records)
    assert await desk.outcomes(image, "hide", "show", "again") == []
    assert await desk.services.parked_image_commands.waiting_for("show") == {image: None}
    await desk.submit(desk.records({**review, "images": [image]}))
    (after,) = images_from(await desk.stored(review["id"]))
    assert after.is_hidden
    assert await desk.outcomes(image, "hide", "show", "again") == [Outcome.APPLIED] * 3
    await desk.command_images(early)
    assert images_from(await desk.stored(review["id"])) == (after,)
    assert await desk.database["parkedCommands"].count_documents({}) == 0


async def test_parked_command_does_not_set_modified_date_back(desk: Desk) -> None:
    image, review, now = await desk.upload(picture()), desk.review(), datetime.now(UTC)
    before = round((now - timedelta(hours=1)).timestamp() * 1_000)
    await desk.command_images(desk.records(command("hide", review, image), at=before))
    await desk.submit(desk.records({**review, "images": [image]}))
    after = await desk.stored(review["id"])
    assert images_from(after)[0].is_hidden
    assert after["modifiedDate"] == after["createdDate"]


async def test_parked_command_is_applied_before_later_ones(desk: Desk) -> None:
    image, review = await desk.upload(picture()), desk.review()
    review["images"] = [image]
    hide, show = desk.records(*(command(each, review, image, each) for each in ("hide", "show")))
    await desk.submit(desk.records(review))
    await park_unchecked(desk, hide)
    await desk.command_images([show])
    (after,) = images_from(await desk.stored(review["id"]))
    assert not after.is_hidden
    assert await desk.outcomes(image, "hide", "show") == [Outcome.APPLIED] * 2
    assert await desk.database["parkedCommands"].count_documents({}) == 0


async def test_commands_about_removed_images_are_not_parked(desk: Desk) -> None:
    first, second = [await desk.upload(picture()) for _ in range(2)]
    review, other = desk.review(images=[first]), desk.review(images=[second])
    await desk.submit(desk.records(review, other))
    await desk.command_images(desk.records(command("hide", review, second, "of-another")))
    await desk.moderate(("delete", review["id"]))
    await desk.command_images(desk.records(command("hide", review, first, "deleted")))
    found = [*await desk.outcomes(second, "of-another"), *await desk.outcomes(first, "deleted")]
    assert found == [Outcome.NOT_FOUND] * 2


async def test_commands_without_review_are_given_up(desk: Desk) -> None:
    image, review = str(uuid4()), desk.review()
    await desk.command_images(desk.records(command("hide", review, image, "first")))
    parked, now = desk.parked, datetime.now(UTC)
    assert [await parked.are_overdue(now - timedelta(hours=1)), await parked.are_overdue(now)] == [False, True]
    assert await parked.give_up_overdue(now) == 1
    assert await desk.outcomes(image, "first") == [Outcome.NOT_FOUND]
    (letter,) = desk.kafka.published
    assert (letter.topic, letter.key) == ("test.image-commands.dlq", image.encode())
    assert json.loads(letter.value or b"") == command("hide", review, image, "first")
    assert not await parked.are_overdue(now)


async def test_command_parked_beside_earlier_worker_version_is_applied(desk: Desk) -> None:
    image, review = await desk.upload(picture()), desk.review()
    await desk.submit(desk.records({**review, "images": [image]}))
    (hide,) = desk.records(command("hide", review, image, "hide"))
    await park_unchecked(desk, hide)
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 0
    assert await desk.outcomes(image, "hide") == [Outcome.APPLIED]
    assert [each.is_hidden for each in images_from(await desk.stored(review["id"]))] == [True]


async def test_damaged_review_does_not_block_giving_up_other_commands(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even with more overdue commands than one batch takes; their parking time stays unchanged."""
    monkeypatch.setattr("consumers.parking.MOST_OVERDUE", 1)
    damaged, image, missing = desk.review(), str(uuid4()), str(uuid4())
    await desk.submit(desk.records(damaged))
    await desk.command_images(
        desk.records(command("hide", damaged, image, "one"), command("hide", desk.review(), missing, "two"))
    )
    waiting = await desk.database["parkedCommands"].find_one({"reviewId": damaged["id"]})
    await desk.database["reviews"].update_one({"_id": damaged["id"]}, {"$set": {"images": "none"}})
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 1
    assert [await desk.outcomes(id, key) for id, key in ((image, "one"), (missing, "two"))] == [
        [],
        [Outcome.NOT_FOUND],
    ]
    assert await desk.database["parkedCommands"].find().to_list() == [waiting]


@pytest.mark.long
async def test_damaged_image_does_not_block_giving_up_other_commands(desk: Desk) -> None:
    image, missing = await desk.upload(picture()), str(uuid4())
    review = desk.review(images=[image])
    await desk.submit(desk.records(review))
    await desk.database["images"].update_one({"_id": image}, {"$set": {"state": "strange"}})
    (hide,) = desk.records(command("hide", review, image, "one"))
    await park_unchecked(desk, hide)
    await desk.command_images(desk.records(command("hide", desk.review(), missing, "two")))
    assert await desk.parked.give_up_overdue(datetime.now(UTC)) == 1
    assert await desk.outcomes(image, "one") == []
    assert await desk.outcomes(missing, "two") == [Outcome.NOT_FOUND]
    await desk.command_images(desk.records(command("hide", review, image, "three")))
    assert dict(desk.kafka.published[-1].headers)["x-error-code"] == b"stored-document"


@pytest.mark.parametrize("field", ["state", "at"])
async def test_commands_apply_to_image_with_missing_field_before_repair(desk: Desk, field: str) -> None:
    images = [await desk.upload(picture()), str(uuid4()), await desk.upload(b"no picture")]
    await desk.services.image_files.put_upload(images[1], upload_digest(picture()), picture())
    review = desk.review(images=images[:2])
    await desk.submit(desk.records(review))
    stored = desk.database["images"]
    before = await stored.find().sort("_id").to_list()
    await stored.update_many({}, {"$unset": {field: ""}})
    await desk.command_images(desk.records(*(command("hide", review, image, "hide") for image in images[:2])))
    assert [each.is_hidden for each in images_from(await desk.stored(review["id"]))] == [True] * 2
    mender = Mender(desk.database, "images")
    assert await mender.count(most=9, patience_ms=60_000) == 3
    async with desk.database.client.start_session() as session:
        assert (await mender.mend(images, {}, session)).filled == 3
    if field == "state":
        assert [each["state"] async for each in stored.find().sort("_id")] == [each["state"] for each in before]
    assert await mender.count(most=9, patience_ms=60_000) == 0


async def test_erasing_moderator_keeps_parked_commands(desk: Desk) -> None:
    image, review = await desk.upload(picture()), desk.review()
    await desk.command_images(desk.records(command("hide", review, image)))
    data = PersonalData(desk.database, "mona")
    assert [each.command.reason for each in await data.parked_image_commands()] == ["a face"]
    assert await data.forget_parked() == 1
    assert await data.parked_image_commands() == []
    await desk.submit(desk.records({**review, "images": [image]}))
    assert [each.is_hidden for each in images_from(await desk.stored(review["id"]))] == [True]


async def test_image_ready_after_approval_was_sent_stays_hidden(desk: Desk) -> None:
    """The approval waits in Kafka while the image is rebuilt."""
    image = str(uuid4())
    await desk.services.image_files.put_upload(image, upload_digest(picture()), picture())
    reviews = [desk.review(images=[image]), desk.review()]
    await desk.submit(desk.records(*reviews))
    sent = round((datetime.now(UTC) - timedelta(minutes=1)).timestamp() * 1_000)
    await desk.upload(picture(), id=image)
    await desk.moderate(*(("approve", review["id"]) for review in reviews), sent=sent)
    (after,) = images_from(await desk.stored(reviews[0]["id"]))
    assert (after.is_pending, after.is_hidden) == (False, True)
    assert (await desk.stored(reviews[1]["id"]))["status"] == ReviewStatus.APPROVED


async def test_image_added_by_edit_after_approval_was_sent_stays_hidden(desk: Desk) -> None:
    """The approval refers to the review as it was: its sender saw other images. Later approvals include this one."""
    for is_before in (True, False):
        first, second = await desk.upload(picture()), await desk.upload(picture())
        review = desk.review(images=[first])
        await desk.submit(desk.records(review))
        await desk.submit(desk.records({**review, "images": [first, second]}))
        sent = datetime.now(UTC) + timedelta(minutes=-1 if is_before else 1)
        await desk.moderate(("approve", review["id"]), sent=round(sent.timestamp() * 1_000))
        after = images_from(await desk.stored(review["id"]))
        assert [(each.id, each.is_hidden) for each in after] == [(first, False), (second, is_before)]
        assert (await desk.stored(review["id"]))["status"] == ReviewStatus.APPROVED


async def test_image_that_its_author_adds_to_an_approved_review_is_hidden(desk: Desk) -> None:
    """Its store leaves edited reviews approved. The image is hidden also if it is ready only later."""
    store, first, second, third = await desk.open_store(editsKeepStatus=True), *[str(uuid4()) for _ in range(3)]
    review = desk.review(images=[first], storeId=store)
    await desk.upload(picture(), id=first)
    await desk.submit(desk.records(review))
    sent = datetime.now(UTC) + timedelta(minutes=1)
    await desk.moderate(("approve", review["id"]), sent=round(sent.timestamp() * 1_000))
    await desk.upload(picture(), id=second)
    await desk.services.image_files.put_upload(third, upload_digest(picture()), picture())
    await desk.submit(desk.records({**review, "images": [first, second, third]}))
    await desk.upload(picture(), id=third)
    after = await desk.stored(review["id"])
    assert after["status"] == ReviewStatus.APPROVED
    assert [(each.id, each.is_shown) for each in images_from(after)] == [(first, True), (second, False), (third, False)]


@pytest.mark.parametrize("is_one_batch", [True, False])
@pytest.mark.parametrize("is_added", [True, False])
async def test_resubmitted_row_keeps_pending_images_of_another_edit(
    desk: Desk, is_added: bool, is_one_batch: bool
) -> None:
    image, review = str(uuid4()), desk.review()
    await desk.services.image_files.put_upload(image, upload_digest(picture()), picture())
    before, between = ([], [image]) if is_added else ([image], [])
    await desk.submit(desk.records({**review, "images": before}))
    other, row = {**review, "images": between}, {**review, "review": "Mended", "images": [], "pendingImages": 1}
    for edits in ([other, row],) if is_one_batch else ([other], [row]):
        await desk.submit(desk.records(*edits))
    after = await desk.stored(review["id"])
    assert (after["review"], [each["id"] for each in after.get("images", ())]) == ("Mended", between)


async def test_image_is_shown_if_reprocessed_before_its_review(desk: Desk) -> None:
    """As after a restore: neither is in the database, the upload is removed, and the approval is from before the
    restore."""
    before = round((datetime.now(UTC) - timedelta(hours=1)).timestamp() * 1_000)
    image = await desk.upload(picture(), at=before)
    await desk.database["images"].delete_one({"_id": image})
    files, digest = desk.services.image_files, upload_digest(picture())
    assert await files.upload(image, digest) is None
    await desk.read_uploads(desk.records({"id": image, "digest": digest}, at=before))
    review = desk.review(images=[image])
    await desk.submit(desk.records(review, at=before))
    await desk.moderate(("approve", review["id"]), sent=before)
    (after,) = images_from(await desk.stored(review["id"]))
    assert (after.id, after.is_shown) == (image, True)


class LateClock(datetime):
    """The clock of a worker that is an hour behind."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) - timedelta(hours=1)


@pytest.mark.parametrize("is_edit", [True, False])
@pytest.mark.parametrize("is_worker_late", [True, False], ids=["worker's clock behind", "API's clock ahead"])
async def test_wrong_clock_shows_no_unseen_image(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_worker_late: bool, is_edit: bool
) -> None:
    """The approval is older than the image's record by the clock of the API, which may be ahead of MongoDB's."""
    image, review = str(uuid4()), desk.review()
    await desk.services.image_files.put_upload(image, upload_digest(picture()), picture())
    sent = round((datetime.now(UTC) + timedelta(minutes=-1 if is_worker_late else 2)).timestamp() * 1_000)
    uploaded = sent + (-1_000 if is_worker_late else 1_000)
    if is_worker_late:
        for module in ("consumers.images.consumer", "consumers.images.claims"):
            monkeypatch.setattr(f"{module}.datetime", LateClock)
    with_image = {**review, "images": [image]}
    if is_edit:
        await desk.upload(picture(), id=image)
        await desk.submit(desk.records(review))
        await desk.submit(desk.records(with_image, at=sent + 1_000))
    else:
        await desk.submit(desk.records(with_image))
        await desk.upload(picture(), id=image, at=uploaded)
    await desk.moderate(("approve", review["id"]), sent=sent)
    (after,) = images_from(await desk.stored(review["id"]))
    assert (after.is_pending, after.is_hidden) == (False, True)
