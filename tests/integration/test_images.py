"""Images of reviews, from the upload to the removal of the last trace."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.support.console_pages import forms, text_of
from tests.support.facade import REVIEWS, Facade, body_of, errors_of, new_id, once, problem_of, submission
from tests.support.images import IMAGES, Images, opened, picture
from tests.support.messages import Message, message
from tests.support.retries import resend_until_refused, resend_until_settled, retry_until_decided
from tests.support.service import Json, Service
from tests.support.waiting import eventually


@pytest.fixture
def images(http: httpx.AsyncClient) -> Images:
    return Images(http)


def files_of(service: Service, id: str) -> list[str]:
    """Return the names of the files of an image in the store, its upload included."""
    store = service.folder / "images"
    return sorted(file.name for folder in ("incoming", "images") for file in Path(store / folder / id).glob("*"))


async def refused(http: httpx.AsyncClient, *reviews: Json) -> httpx.Response:
    """Return the response to reviews that name images they cannot have."""
    return await resend_until_refused(partial(http.post, REVIEWS, json=reviews))


async def until_gone(service: Service, *ids: str) -> None:
    """Wait until no file of these images remains."""
    for id in ids:
        await eventually(partial(asyncio.to_thread, files_of, service, id), lambda files: not files)


async def test_image_is_rebuilt_and_shown_with_its_review(
    facade: Facade, images: Images, service: Service, http: httpx.AsyncClient, product: str
) -> None:
    turned = picture(
        (3_000, 2_000),
        "JPEG",
        comment=b"from home",
        exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
    )
    id = await images.upload(turned)
    (review,) = await facade.submit(submission(product, images=[id]))
    assert (await facade.review(review))["images"] == [{"id": id, "hidden": False}]
    await facade.moderate("approve", review)
    large = await http.get(f"{IMAGES}/{id}")
    small = await http.get(f"{IMAGES}/{id}", params={"size": "320"})
    assert [opened(each.content).size for each in (large, small)] == [(1_067, 1_600), (213, 320)]
    assert large.headers["content-type"] == "image/jpeg"
    assert large.headers["x-content-type-options"] == "nosniff"
    assert large.headers["cache-control"] == "public, no-cache"
    assert large.headers["etag"] != small.headers["etag"]
    assert b"from home" not in large.content
    for tags in (f'"x", W/{large.headers["etag"]}', "*"):
        known = await http.get(f"{IMAGES}/{id}", headers={"If-None-Match": tags})
        assert (known.status_code, known.content) == (304, b"")
    assert files_of(service, id) == ["1600", "320"]
    await facade.moderate("delete", review)
    assert await images.status(id) == 404
    await until_gone(service, id)
    unknown = await refused(http, submission(product, images=[id]))
    assert errors_of(unknown, 403) == [("/0/images", "unknown-image")]


async def test_forms_and_bad_uploads(images: Images, http: httpx.AsyncClient) -> None:
    png = picture()
    upload = partial(http.post, IMAGES, files={"file": ("a.exe", png, "text/html")}, headers=once())
    assert await images.status(body_of(await retry_until_decided(upload), dict)["id"]) == 200
    # Sent again with its key, in a form with another boundary.
    assert body_of(await retry_until_decided(upload), dict) == body_of(await retry_until_decided(upload), dict)
    for other in ({"files": {"file": ("a.exe", picture(colour="blue"))}}, {"params": {"userId": "anna"}}):
        problem = problem_of(await upload(**other), 422)
        assert problem["type"].endswith("idempotency-key-reused")
    two = {"file": ("a", png), "other": ("b", png)}
    problem_of(await http.post(IMAGES, files=two), 400)
    problem_of(await http.post(IMAGES, content=b"x", headers={"Content-Type": "multipart/form-data"}), 400)
    for content, media_type in ((b"<svg/>", "image/png"), (png, "image/svg+xml")):
        sent = await http.post(IMAGES, content=content, headers={"Content-Type": media_type})
        assert ("image/heic" in problem_of(sent, 415)["detail"]) is (find_spec("pillow_heif") is not None)
    problem_of(await http.post(IMAGES, content=png, headers={"Content-Type": "application/json"}), 415)
    large = png + bytes(10 * 1024 * 1024)
    problem_of(await http.post(IMAGES, content=large, headers={"Content-Type": "image/png"}), 413)
    assert await images.refused(png[:50]) == "image-unreadable"
    assert await images.refused(picture(kind="GIF").replace(b"GIF", b"\xff\xd8\xff")) == "image-unreadable"


async def test_image_belongs_to_one_review(
    facade: Facade, images: Images, service: Service, http: httpx.AsyncClient, product: str
) -> None:
    anna, berta = await images.upload(userId="anna"), await images.upload(userId="berta")
    nobody = "0" * 8 + "-0000-0000-0000-" + "0" * 12
    one, three = [submission(product, images=[each]) for each in (berta, nobody)]
    assert errors_of(await refused(http, one, three), 403) == [
        ("/0/images", "image-of-another"),
        ("/1/images", "unknown-image"),
    ]

    async def twice() -> httpx.Response:
        image = await images.upload(userId="anna")
        return await http.post(REVIEWS, json=[submission(product, images=[image]) for _ in range(2)])

    both = await eventually(twice, lambda answer: answer.status_code not in (202, 503))
    assert errors_of(both, 403) == [("/1/images", "image-of-another")]
    assert errors_of(await http.post(REVIEWS, json=[submission(product, images=["../x"])])) == [
        ("/0/images/0", "string-pattern-mismatch")
    ]
    (review,) = await facade.submit(submission(product, images=[anna]))
    await service.publish("review-submissions", message(submission(product, id=(late := new_id()), images=[anna])))
    assert await eventually(partial(service.refusal_codes, late)) == ["image-of-another"]
    assert (await facade.review(review))["images"] == [{"id": anna, "hidden": False}]


@pytest.mark.long
async def test_edits_change_images(facade: Facade, images: Images, service: Service, product: str) -> None:
    first, second = await images.upload(), await images.upload()
    (review,) = await facade.submit(submission(product, images=[first]))
    await facade.submit(submission(product, id=review, title="No word of images"))
    assert (await facade.review(review))["images"] == [{"id": first, "hidden": False}]
    await facade.submit(submission(product, id=review, images=[second]))
    assert (await facade.review(review))["images"] == [{"id": second, "hidden": False}]
    assert (await images.status(first), await images.status(second)) == (404, 200)
    await until_gone(service, first)
    await facade.submit(submission(product, id=review, images=[]))
    assert (await facade.review(review))["images"] == []
    await until_gone(service, second)


@pytest.mark.long
async def test_moderators_hide_and_show(facade: Facade, images: Images, product: str, http: httpx.AsyncClient) -> None:
    id = await images.upload()
    (review,) = await facade.submit_approved(submission(product, images=[id]))
    results = [await images.moderate(action, review, id) for action in ("hide", "hide", "show", "hide")]
    assert [each["outcome"] for each in results] == ["applied", "unchanged", "applied", "applied"]
    assert (await facade.review(review))["images"] == [{"id": id, "hidden": True}]
    assert (await http.get(f"{IMAGES}/{id}")).headers["cache-control"] == "private, no-store"
    entries = (await facade.get("/api/audit", reviewId=review))["results"]
    assert [each["action"] for each in entries] == ["hide-image", "show-image", "hide-image", "approve"]
    assert (await images.moderate("hide", review, "0" * 8 + id[8:]))["outcome"] == "not-found"


@pytest.mark.long
async def test_images_that_nobody_has_seen_are_listed_until_a_moderator_decides(
    facade: Facade, images: Images, http: httpx.AsyncClient, product: str
) -> None:
    """An author may add images to an approved review that stays approved: they are hidden until somebody sees them."""

    async def listed(is_unseen: bool = True) -> list[str]:
        body = {"unseenImages": is_unseen, "entityIds": [product]}
        found = body_of(await http.post(f"{REVIEWS}/search", json=body), dict)
        return [row["id"] for row in found["results"]]

    store = await facade.open_store(editsKeepStatus=True)
    first, shown, kept, removed = [await images.upload() for _ in range(4)]
    written = submission(product, storeId=store, images=[first])
    (review,) = await facade.submit_approved(written)
    assert (await listed(), await listed(False)) == ([], [review])
    written |= {"id": review}
    await facade.command("POST", REVIEWS, [{**written, "images": [first, shown, kept, removed]}])
    row = await facade.review(review)
    assert (row["reviewStatus"], row["unseenImages"]) == ("Approved", [shown, kept, removed])
    assert (await listed(), await listed(False)) == ([review], [])
    page = text_of((await http.get("/console/reviews", params={"photos": "unseen", "object": product})).text)
    assert "As good as they say" in page
    assert "photos to check" in page
    assert (await images.moderate("show", review, shown))["outcome"] == "applied"
    here = f"/console/reviews/{review}"
    found = forms((await http.get(here)).text)
    (form,) = [each for each in found if each.action == f"{here}/images/{kept}"]
    await resend_until_settled(partial(http.post, form.action, data={**form.fields, "action": "hide"}))
    row = await facade.review(review)
    assert row["unseenImages"] == [removed]
    assert [each["hidden"] for each in row["images"]] == [False, False, True, True]
    assert await listed() == [review]
    assert (await images.moderate("hide", review, kept))["outcome"] == "unchanged"
    await facade.command("POST", REVIEWS, [{**written, "images": [first, shown, kept]}])
    assert (await listed(), await listed(False)) == ([], [review])
    entries = (await facade.get("/api/audit", reviewId=review))["results"]
    assert [each["action"] for each in entries] == ["edit", "hide-image", "show-image", "edit", "approve"]


async def set_back(service: Service, review: str, image: str) -> Message:
    """Reset an image of a review to the state before it was rebuilt; returns the message that triggers the rebuild."""
    async with service.mongo() as database:
        await database["images"].update_one({"_id": image}, {"$set": {"state": "awaited"}})
        place = {"_id": review, "images.id": image}
        await database["reviews"].update_one(place, {"$set": {"images.$.pending": True}})
    (record,) = await service.keyed("image-uploads", image)
    return Message(image, record.value, record.headers)


@pytest.mark.long
@pytest.mark.parametrize("is_by_form", [True, False])
async def test_image_pending_at_approval_stays_hidden(
    facade: Facade, images: Images, service: Service, http: httpx.AsyncClient, product: str, is_by_form: bool
) -> None:
    early, late = [await images.upload() for _ in range(2)]
    (review,) = await facade.submit(submission(product, images=[early, late]))
    here, queue = f"/console/reviews/{review}", f"/console/queue?q={product}"
    (before, *_) = [each.fields for each in forms((await http.get(here)).text) if each.action == f"{here}/decide"]
    upload = await set_back(service, review, late)
    current = await facade.review(review)
    assert (current["images"], current["pendingImages"]) == ([{"id": early, "hidden": False}], 1)
    assert "1 photo isn't ready yet" in text_of((await http.get(queue)).text)
    # As when a moderator edits it by its row, which cannot name the photo that is still pending.
    await facade.command("POST", "/api/customerReviews", [{**current, "title": "Mended"}])
    current = await facade.review(review)
    assert (current["title"], current["images"], current["pendingImages"]) == (
        "Mended",
        [{"id": early, "hidden": False}],
        1,
    )
    page = (await http.get(here)).text
    assert "If you approve the review now, it stays hidden" in text_of(page)
    (form, *_) = [each.fields for each in forms(page) if each.action == f"{here}/decide"]
    assert form["seen"] != before["seen"]
    if is_by_form:
        await resend_until_settled(partial(http.post, f"{here}/decide", data={**form, "action": "approve"}))
    else:
        await facade.moderate("approve", review)
    await service.publish("image-uploads", upload)
    ready = await eventually(partial(facade.review, review), lambda row: not row["pendingImages"])
    assert ready["images"] == [{"id": early, "hidden": False}, {"id": late, "hidden": True}]
    assert ready["unseenImages"] == [late]
    await images.moderate("show", review, late)
    assert not any(image["hidden"] for image in (await facade.review(review))["images"])


@pytest.mark.long
async def test_image_of_review_approved_by_rule_is_shown_once_ready(
    facade: Facade, images: Images, service: Service, product: str
) -> None:
    always = {"id": "always", "kind": "always", "outcome": "approve"}
    store, image = await facade.open_store(moderationRules=[always]), await images.upload()
    (review,) = await facade.submit(submission(product, storeId=store, images=[image]))
    assert (await facade.review(review))["reviewStatus"] == "Approved"
    await service.publish("image-uploads", await set_back(service, review, image))
    ready = await eventually(partial(facade.review, review), lambda row: not row["pendingImages"])
    assert ready["images"] == [{"id": image, "hidden": False}]


@pytest.mark.long
async def test_unused_images_are_removed(images: Images, service: Service) -> None:
    kept, unused = await images.upload(), await images.upload()
    long_ago = datetime.now(UTC) - timedelta(hours=24, seconds=1)
    async with service.mongo() as database:
        await database["images"].update_one({"_id": unused}, {"$set": {"unusedSince": long_ago}})
    await until_gone(service, unused)
    assert (await images.status(unused), await images.status(kept)) == (404, 200)


@pytest.mark.long
async def test_erasure_removes_images_of_person(facade: Facade, images: Images, service: Service, product: str) -> None:
    person = new_id("person")
    mine, spare, lent = [await images.upload(userId=person) for _ in range(3)]
    await facade.submit_approved(submission(product, userId=person, images=[mine]))
    (nameless,) = await facade.submit_approved(submission(product, userId=None, images=[lent]))
    exported = (await service.run("privacy", "export", "--customer", person)).stdout
    assert all(id in exported for id in (mine, spare, lent))
    await service.run("privacy", "erase", "--customer", person, "--yes")
    assert [await images.status(id) for id in (mine, spare, lent)] == [404, 404, 404]
    assert (await facade.review(nameless))["images"] == []
    await until_gone(service, mine, spare, lent)
