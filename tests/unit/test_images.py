"""Images: accepted uploads, ownership, and the images of a review."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from domain.commands import Outcome
from domain.delivery import Seen
from domain.images import (
    ClaimableImages,
    ImageFormat,
    ImageState,
    Rebuilt,
    StoredImage,
    UploadRefusal,
    format_of,
    images_after_edit,
    images_of_new_review,
    is_foreign,
    may_come,
    ready_among,
    settle_upload,
    stands_without_unknown,
    upload_digest,
    upload_outcome,
    with_new_hidden,
    with_pending,
    with_readiness,
    with_settled,
    with_unseen_hidden,
    with_visibility,
)
from domain.reviews_facts import ReviewImage, Source
from domain.reviews_refusals import Refusal

NOW, EARLIER = datetime(2026, 3, 14, tzinfo=UTC), datetime(2026, 3, 13, tzinfo=UTC)
READY = StoredImage("i", ImageState.READY, EARLIER, width=4, height=3)
AWAITED = StoredImage("i", ImageState.AWAITED, EARLIER, review_id="r")
UPLOAD = StoredImage("i", ImageState.AWAITED, NOW, "anna")
REBUILT = Rebuilt(4, 3, (b"large", b"small"))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\xff\xd8\xff\xe0" + bytes(8), ImageFormat.JPEG),
        (b"\xff\xd8\xfe" + bytes(9), None),
        (b"\x89PNG\r\n\x1a\n" + bytes(4), ImageFormat.PNG),
        (b"\x89PNG\r\n\x1a\r" + bytes(4), None),
        (b"RIFF\0\0\0\0WEBP", ImageFormat.WEBP),
        (b"RIFF\0\0\0\0WEBPVP8 ", ImageFormat.WEBP),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"RIFX\0\0\0\0WEBP", None),
        (b"\0\0\0\x18ftypheic", ImageFormat.HEIC),
        (b"\0\0\0\x18ftypmif1more", ImageFormat.HEIC),
        (b"\0\0\0\x18ftypmp42", None),
        (b"GIF89a" + bytes(6), None),
        (b"", None),
    ],
)
def test_format_of_a_file_head(head: bytes, expected: ImageFormat | None) -> None:
    assert format_of(head) is expected


def test_upload_digest_is_128_bits_of_blake2b() -> None:
    assert upload_digest(b"") == "cae66941d9efbd404e4d88758ea67670"
    assert upload_digest(b"a") != upload_digest(b"b")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (None, Refusal.UNKNOWN_IMAGE),
        (READY, None),
        (AWAITED, None),
        (replace(READY, state=ImageState.GONE), Refusal.UNKNOWN_IMAGE),
        (replace(READY, state=ImageState.REFUSED), Refusal.REFUSED_IMAGE),
        (replace(READY, review_id="r"), None),
        (replace(READY, review_id="other"), Refusal.IMAGE_OF_ANOTHER),
        (replace(AWAITED, review_id="other"), Refusal.IMAGE_OF_ANOTHER),
        (replace(READY, uploader="anna"), None),
        (replace(READY, uploader="berta"), Refusal.IMAGE_OF_ANOTHER),
    ],
)
def test_objection_to_an_image(image: StoredImage | None, expected: Refusal | None) -> None:
    assert ClaimableImages({"i": image} if image else {}, (), NOW).objection("i", "r", "anna") is expected


def test_no_objection_to_an_existing_upload() -> None:
    assert ClaimableImages({}, {"i"}, NOW).objection("i", "r", "anna") is None


@pytest.mark.parametrize(
    ("uploader", "author", "expected"),
    [
        ("anna", "anna", False),
        ("anna", "berta", True),
        (None, "anna", False),
        ("anna", None, False),
        ("", "anna", True),
    ],
)
def test_foreign_image_needs_two_different_names(uploader: str | None, author: str | None, expected: bool) -> None:
    assert is_foreign(uploader, author) is expected


def test_upload_is_settled_once() -> None:
    for state in (ImageState.READY, ImageState.REFUSED, ImageState.GONE):
        image = replace(READY, state=state)
        assert settle_upload(image, UPLOAD, REBUILT, None) is image
    ready = settle_upload(None, UPLOAD, REBUILT, None)
    assert ready == StoredImage("i", ImageState.READY, NOW, "anna", None, 4, 3)
    refused = settle_upload(None, UPLOAD, UploadRefusal.ANIMATED, None)
    assert refused == StoredImage("i", ImageState.REFUSED, NOW, "anna", refusal=UploadRefusal.ANIMATED)


@pytest.mark.parametrize("author", ["anna", None])
def test_awaited_image_stays_with_its_review(author: str | None) -> None:
    after = settle_upload(AWAITED, UPLOAD, REBUILT, author)
    assert (after.state, after.review_id, after.at) == (ImageState.READY, "r", NOW)


def test_settling_keeps_seen_commands() -> None:
    seen = Seen({2: (7, 1_000)})
    for result in (REBUILT, UploadRefusal.ANIMATED):
        assert settle_upload(replace(AWAITED, seen=seen), UPLOAD, result, "anna").seen == seen


def test_awaited_image_of_another_user_is_refused() -> None:
    after = settle_upload(AWAITED, UPLOAD, REBUILT, "berta")
    assert (after.state, after.review_id, after.refusal) == (ImageState.REFUSED, None, UploadRefusal.OF_ANOTHER)
    assert settle_upload(None, UPLOAD, REBUILT, "berta").state is ImageState.READY
    assert settle_upload(AWAITED, UPLOAD, UploadRefusal.ANIMATED, "berta").refusal is UploadRefusal.ANIMATED


def test_edit_reorders_images_and_keeps_them_hidden() -> None:
    before = (ReviewImage("a", is_hidden=True), ReviewImage("b"))
    assert images_after_edit(["c", "a", "d", "c", "b"], before, {"c"}, NOW) == (
        ReviewImage("c", ready_at=NOW),
        ReviewImage("a", is_hidden=True),
        ReviewImage("d", is_pending=True),
        ReviewImage("b"),
    )
    assert images_after_edit([], before, {"a"}, NOW) == ()


def test_pending_images_follow_the_named_ones() -> None:
    before = (ReviewImage("a", is_pending=True), ReviewImage("b"), ReviewImage("c", is_pending=True))
    assert with_pending(["b", "c"], before) == ("b", "c", "a")
    assert with_pending([*"12345"], before) == (*"12345",)


def test_images_of_new_reviews_are_pending() -> None:
    images = images_of_new_review(["b", "a", "b"], ["a"])
    assert images == (ReviewImage("b", is_pending=True), ReviewImage("a", is_hidden=True, is_pending=True))
    assert with_readiness(images, {"a"}) == (images[0], ReviewImage("a", is_hidden=True))


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        (Source.IMPORT, ["new", "i", "own"]),
        (Source.API, ["x", "new", "i", "own", "b"]),
        (Source.WIDGET, ["x", "new", "i", "own", "b"]),
        (Source.KAFKA, ["x", "new", "g", "i", "none", "own", "b", "bad"]),
    ],
)
def test_images_kept_for_new_reviews_depend_on_the_source(source: Source, kept: list[str]) -> None:
    stored = {"i": READY, "x": replace(READY, id="x", review_id="other"), "g": replace(READY, state=ImageState.GONE)}
    stored |= {"own": replace(READY, id="own", review_id="r"), "b": replace(READY, id="b", uploader="berta")}
    stored["bad"] = replace(READY, state=ImageState.REFUSED)
    ids = ["x", "new", "g", "i", "none", "own", "b", "bad"]
    images = ClaimableImages(stored, {"new"}, NOW)
    assert images.without_lost(ids, "r", "anna", source) == tuple(kept)


def test_single_image_is_hidden_or_shown() -> None:
    images = tuple(ReviewImage(id, is_hidden=id in "bd") for id in "abcd")
    assert with_visibility(images, "a", hidden=True) == (ReviewImage("a", is_hidden=True), *images[1:])
    assert with_visibility(images, "b", hidden=False) == (images[0], ReviewImage("b"), *images[2:])


def test_hidden_images_are_unseen_until_a_moderator_decides() -> None:
    now, seen, late = datetime.now(UTC), ReviewImage("seen"), ReviewImage("late", is_pending=True)
    decided = ReviewImage("decided", is_hidden=True, is_pending=True)
    approved = with_unseen_hidden((seen, late, decided), now)
    assert approved == (seen, late._replace(is_hidden=True, is_unseen=True), decided)
    assert with_new_hidden((seen, late, decided), (seen,)) == approved
    assert with_unseen_hidden(approved, now) == with_new_hidden(approved, approved) == approved
    settled = with_settled(approved, "late", now)
    assert [each.is_unseen for each in settled] == [False, True, False]
    for is_hidden in (True, False):
        after = with_visibility(settled, "late", hidden=is_hidden)
        assert [(each.is_hidden, each.is_unseen) for each in after][1] == (is_hidden, False)


def test_single_image_becomes_ready_or_is_removed() -> None:
    images = (ReviewImage("a", is_hidden=True, is_pending=True), ReviewImage("b", is_pending=True))
    assert with_settled(images, "a", NOW) == (ReviewImage("a", is_hidden=True, ready_at=NOW), images[1])
    assert with_settled(images, "a", None) == images[1:]
    assert with_settled(images, "b", None) == images[:1]


def test_image_belongs_to_one_review() -> None:
    stored = {"i": READY, "x": replace(READY, id="x", review_id="other")}
    images = ClaimableImages(stored, {"new"}, NOW)
    assert images.refusal(["i", "new"], "r", None) is None
    assert images.refusal(["i", "x"], "r", None) is Refusal.IMAGE_OF_ANOTHER
    assert images._replace(uploaded=()).refusal(["new"], "r", None) is Refusal.UNKNOWN_IMAGE
    assert ClaimableImages({"i": replace(READY, uploader="anna")}, (), NOW).refusal(["i"], "r", "berta") is (
        Refusal.IMAGE_OF_ANOTHER
    )
    claimed = images.claimed(["i", "new"], "r")
    assert claimed.refusal(["i"], "r", None) is None
    after = claimed.stored
    assert after["i"] == replace(READY, review_id="r")
    assert after["new"] == StoredImage("new", ImageState.AWAITED, NOW, review_id="r")
    assert after["x"] is stored["x"]
    assert claimed.refusal(["new"], "second", None) is Refusal.IMAGE_OF_ANOTHER
    assert ready_among(after) == {"i", "x"}
    dropped = claimed.dropped(["i"])
    assert dropped.stored == {**after, "i": StoredImage("i", ImageState.GONE, NOW)}
    assert dropped.refusal(["i"], "r", None) is Refusal.UNKNOWN_IMAGE


@pytest.mark.parametrize(
    ("image", "may"),
    [
        (None, True),
        (READY, True),
        (replace(AWAITED, review_id=None), True),
        (replace(READY, review_id="other"), False),
        (replace(READY, state=ImageState.REFUSED), False),
        (replace(READY, state=ImageState.GONE), False),
    ],
)
def test_images_that_may_still_arrive(image: StoredImage | None, may: bool) -> None:
    assert may_come(image) is may


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (replace(READY, digest="d"), (Outcome.APPLIED, None)),
        (READY, (Outcome.APPLIED, None)),
        (replace(READY, digest="other"), (Outcome.REFUSED, "idempotency-key-reused")),
        (replace(READY, digest="other", state=ImageState.GONE), (Outcome.NOT_FOUND, None)),
        (
            replace(READY, digest="d", state=ImageState.REFUSED, refusal=UploadRefusal.ANIMATED),
            (Outcome.REFUSED, UploadRefusal.ANIMATED.value),
        ),
    ],
    ids=["the same file", "without a digest", "another file", "gone", "refused"],
)
def test_outcome_of_an_upload(image: StoredImage, expected: tuple[Outcome, str | None]) -> None:
    assert upload_outcome(image, "d") == expected


@pytest.mark.parametrize(
    ("source", "stands"), [(None, False), (Source.KAFKA, False), (Source.API, True), (Source.IMPORT, True)]
)
def test_review_that_stands_without_unknown_images(source: Source | None, stands: bool) -> None:
    assert stands_without_unknown(source) is stands
