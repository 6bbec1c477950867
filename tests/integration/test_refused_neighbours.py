"""Submissions in one batch: one that is refused in the end takes nothing from its neighbours.

Each test delivers the same submissions one by one, or in one batch, and expects the same.
"""

from uuid import uuid4

import pytest

from domain.commands import Outcome
from storage.reviews.facts import images_from
from tests.support.consumers import LONG_AGO, Desk
from tests.support.facade import new_id
from tests.support.images import picture
from tests.support.service import Json

together = pytest.mark.parametrize("is_together", [False, True], ids=["one by one", "together"])


async def submit(desk: Desk, *reviews: Json, is_together: bool) -> None:
    """Submit reviews in one batch, or each in a batch of its own."""
    records = desk.records(*reviews)
    for batch in [records] if is_together else [[record] for record in records]:
        await desk.submit(batch)


async def refusals(desk: Desk, *reviews: Json) -> list[str | None]:
    """The codes of the events by which these submissions were refused, None without one."""
    codes = {data["reviewId"]: data["code"] for kind, data in desk.events() if kind == "SubmissionRefused"}
    return [codes.get(each["id"]) for each in reviews]


@together
async def test_review_refused_for_image_leaves_only_review_to_another(desk: Desk, is_together: bool) -> None:
    store = await desk.open_store(oneReviewPerCustomer=True)
    image, author = await desk.upload(picture()), new_id("author")
    others = desk.review(images=[image], storeId=store, userId=new_id("author"))
    refused = desk.review(images=[image], storeId=store, userId=author)
    plain = desk.review(storeId=store, userId=author)
    late = desk.review(storeId=store, userId=author)
    await submit(desk, others, refused, plain, late, is_together=is_together)
    expected = [None, "image-of-another", None, "duplicate-review"]
    assert await refusals(desk, others, refused, plain, late) == expected
    assert (await desk.stored(plain["id"])).get("review") == plain["review"]


@together
async def test_review_refused_as_duplicate_leaves_image_to_another(desk: Desk, is_together: bool) -> None:
    store = await desk.open_store(oneReviewPerCustomer=True)
    image, author = await desk.upload(picture()), new_id("author")
    first = desk.review(storeId=store, userId=author)
    refused = desk.review(images=[image], storeId=store, userId=author)
    others = desk.review(images=[image], storeId=store, userId=new_id("author"))
    await submit(desk, first, refused, others, is_together=is_together)
    assert await refusals(desk, first, refused, others) == [None, "duplicate-review", None]
    assert [each.id for each in images_from(await desk.stored(others["id"]))] == [image]


@together
async def test_review_refused_for_id_leaves_token_to_another(desk: Desk, is_together: bool) -> None:
    store = await desk.open_store(purchaseRequired=True)
    token, signed = await desk.review_token(store)
    taken = desk.review(EntityId=new_id("other"))
    await submit(desk, taken, is_together=True)
    rival = desk.review(id=taken["id"], storeId=store, userId=None, token=signed)
    valid, late = (desk.review(storeId=store, userId=None, token=signed) for _ in range(2))
    await submit(desk, rival, valid, late, {**late, "review": "Once more."}, is_together=is_together)
    assert await refusals(desk, rival, valid, late) == ["id-taken", None, "token-used"]
    (used,) = await desk.services.review_tokens.of_customer(token.customer_id)
    assert used.review_id == valid["id"]


@together
async def test_refused_edit_leaves_image_to_another_review(desk: Desk, is_together: bool) -> None:
    closing, image = await desk.open_store(), await desk.upload(picture())
    # Edits are applied in the order of their reviews' ids.
    closed, open_ = desk.review(id=new_id("a"), storeId=closing), desk.review(id=new_id("b"))
    await submit(desk, closed, open_, is_together=True)
    await desk.open_store(closing, reviewsEnabled=False)
    edits = [{**each, "images": [image]} for each in (closed, open_)]
    await submit(desk, *edits, is_together=is_together)
    assert await refusals(desk, closed, open_) == ["reviews-disabled", None]
    assert [each.id for each in images_from(await desk.stored(open_["id"]))] == [image]


@together
async def test_refused_edit_is_not_accepted_when_redelivered(desk: Desk, is_together: bool) -> None:
    image = str(uuid4())
    first = desk.review()
    records = desk.records(first, {**first, "review": "With a photo.", "images": [image]})
    batches = [records] if is_together else [[record] for record in records]
    for batch in batches:
        await desk.submit(batch)
    await desk.upload(picture(), id=image)
    for batch in batches:
        await desk.submit(batch)
    assert (await desk.stored(first["id"]))["review"] == first["review"]
    assert desk.event_kinds(first["id"]) == ["ReviewSubmitted", "SubmissionRefused"]


@together
async def test_refused_edit_is_accepted_when_sent_again(desk: Desk, is_together: bool) -> None:
    image, command = str(uuid4()), new_id("command")
    first = desk.review()
    edit = {**first, "review": "With a photo.", "images": [image]}
    await submit(desk, first, edit, is_together=is_together)
    await desk.upload(picture(), id=image)
    await submit(desk, {**edit, "commandId": command}, is_together=True)
    assert (await desk.stored(first["id"]))["review"] == edit["review"]
    assert await desk.outcomes(first["id"], command) == [Outcome.APPLIED]


@together
async def test_redelivered_refusal_with_later_time_is_no_edit(desk: Desk, is_together: bool) -> None:
    """The clock of its sender is ahead of that of the next one."""
    review = desk.review()
    partial = {name: value for name, value in review.items() if name != "review"}
    records = [*desk.records({**partial, "rating": 1}, at=LONG_AGO + 5), *desk.records(review, at=LONG_AGO)]
    batches = [records] if is_together else [[record] for record in records]
    for batch in [*batches, *batches, records]:
        await desk.submit(batch)
    assert (await desk.stored(review["id"]))["ratingHundredths"] == 400
    assert desk.event_kinds(review["id"])[:2] == ["SubmissionRefused", "ReviewSubmitted"]
    # A later record is newer, whatever its time.
    await desk.submit(desk.records({**partial, "rating": 2}, at=LONG_AGO + 1))
    assert (await desk.stored(review["id"]))["ratingHundredths"] == 200


async def test_redelivered_refusal_with_later_time_is_no_edit_once_rules_allow_it(desk: Desk) -> None:
    store = await desk.open_store(reviewsEnabled=False)
    first = desk.review(storeId=store, rating=1)
    refused = desk.records(first, at=LONG_AGO + 5)
    await desk.submit(refused)
    await desk.open_store(store)
    accepted = desk.records({**first, "rating": 4}, at=LONG_AGO)
    for batch in (accepted, [*refused, *accepted], refused):
        await desk.submit(batch)
    assert (await desk.stored(first["id"]))["ratingHundredths"] == 400
    assert desk.event_kinds(first["id"]) == ["SubmissionRefused", "ReviewSubmitted"]


@together
async def test_refused_edit_of_refused_submission_is_published(desk: Desk, is_together: bool) -> None:
    """The first submission is delivered again once the store would accept it."""
    store = await desk.open_store(reviewsEnabled=False)
    first = desk.review(storeId=store)
    (record,) = desk.records(first)
    await desk.submit([record])
    await desk.open_store(store)
    records = [record, *desk.records({**first, "review": "With a photo.", "images": [str(uuid4())]})]
    for batch in [records] if is_together else [[each] for each in records]:
        await desk.submit(batch)
    codes = [data["code"] for kind, data in desk.events() if kind == "SubmissionRefused"]
    assert codes == ["reviews-disabled", "unknown-image"]
