"""Claims of images by reviews: a new or edited review gets its images in the transaction that stores it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import structlog

from consumers.images_mark import check_store
from consumers.services import Services
from domain.images import holders_after, ready_among, stands_without_unknown, with_claims, with_readiness, without_lost
from domain.reviews import Review
from domain.reviews_edits import Edit
from domain.reviews_facts import Source
from domain.reviews_refusals import Refusal
from domain.timestamps import from_milliseconds
from storage.images_files import is_store_away
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

_AT_ONCE: Final = 16
"""Number of reviews whose uploads are looked up concurrently."""


class WantedImages(NamedTuple):
    """The ids of the images that a submission names, with its review, author and source."""

    review_id: str
    author: str | None
    source: Source | None
    ids: Sequence[str]


async def uploaded_among(services: Services, wanted: Sequence[WantedImages]) -> set[str]:
    """The ids of images that are uploaded but not rebuilt yet. Images that aren't looked up are included: their review
    lacks another image, and is refused for that.

    Called before the transaction that reads the images: an upload is removed only after its image is stored, so one of
    the two is seen. While the image store is unavailable, all unknown images count as uploaded, since no review waits
    for photos: they are awaited until their uploads are settled or housekeeping finds that there are none.
    """
    ids = {id for each in wanted for id in each.ids}
    unknown = ids - (await services.images.of_ids(ids)).keys()
    missing: set[str] = set()

    async def look_up(review: WantedImages) -> None:
        for id in unknown.intersection(review.ids):
            if not await services.image_files.has_upload(id):
                missing.add(id)
                if not stands_without_unknown(review.source):
                    return

    asked = [each for each in wanted if not unknown.isdisjoint(each.ids)]
    try:
        for start in range(0, len(asked), _AT_ONCE):
            await asyncio.gather(*map(look_up, asked[start : start + _AT_ONCE]))
        if missing:
            await check_store(services)
    except Exception as error:
        if not is_store_away(error):
            raise
        log.warning(
            "images can't be checked: the image store is unavailable", count=len(unknown), error=str(error)[:300]
        )
        return unknown
    return unknown - missing


async def image_refusals(
    services: Services, wanted: Sequence[WantedImages], uploaded: Collection[str]
) -> list[Refusal | None]:
    """The refusal of each review's images, None if there is none.

    Conflicts between reviews of the batch are not checked here: the transaction decides them.
    """
    stored = await services.images.of_ids({id for each in wanted for id in each.ids})
    refusals = []
    for review_id, author, source, named in wanted:
        ids = without_lost(stored, uploaded, named, review_id, author, source)
        holders = holders_after(stored, uploaded, ids, review_id, author)
        refusals.append(holders if isinstance(holders, Refusal) else None)
    return refusals


async def claim_images(reviews: Sequence[Review], uploaded: Collection[str], work: UnitOfWork) -> dict[str, Refusal]:
    """Give new reviews the images that they name, except lost ones that a review may do without. Returns the refusals,
    by id, of reviews that can't have their images."""
    wanted = {image.id for review in reviews for image in review.images}
    if not wanted:
        return {}
    now, images = datetime.now(UTC), work.repositories.images
    stored = await images.of_ids(wanted, work.session)
    given: dict[str, str] = {}
    refused: dict[str, Refusal] = {}
    for review in reviews:
        named = [image.id for image in review.images]
        ids = without_lost(stored, uploaded, named, review.id, review.user_id, review.facts.source)
        review.images = tuple(image for image in review.images if image.id in ids)
        holders = holders_after(stored, uploaded, ids, review.id, review.user_id)
        if isinstance(holders, Refusal):
            refused[review.id] = holders
            continue
        review.images = with_readiness(review.images, ready_among(stored))
        stored, given = with_claims(stored, holders, now), given | holders
    await images.give(given, now, work.session)
    return refused


async def checked_edits(
    edits: Sequence[Edit], reviews: Mapping[str, Review], uploaded: Collection[str], work: UnitOfWork
) -> Sequence[Edit]:
    """Edits, completed with the refusal or the readiness of the images that they name."""
    wanted = {id for edit in edits for id in edit.content.images or ()}
    if not wanted:
        return edits
    now = await work.now()
    stored = await work.repositories.images.of_ids(wanted, work.session)
    checked = []
    for edit in edits:
        review = reviews.get(edit.review_id)
        if review is not None and edit.content.images:
            author = review.identity.user_id
            holders = holders_after(stored, uploaded, edit.content.images, edit.review_id, author)
            if isinstance(holders, Refusal):
                edit = replace(edit, image_refusal=holders)
            else:
                # The later of two clocks: an approval sent before the edit must not cover its images.
                effective = max(now, from_milliseconds(edit.position.timestamp))
                stored, edit = (
                    with_claims(stored, holders, now),
                    replace(edit, ready=ready_among(stored), effective=effective),
                )
        checked.append(edit)
    return checked


async def save_images(before: Mapping[str, Review], after: Mapping[str, Review], work: UnitOfWork) -> None:
    """Give edited reviews the images that they have gained, and give up those that they have dropped."""
    now = {image.id: id for id, review in after.items() for image in review.images}
    had = {image.id for id in after for image in before[id].images}
    await work.repositories.images.give(
        {id: review_id for id, review_id in now.items() if id not in had}, datetime.now(UTC), work.session
    )
    await work.repositories.images.give_up(had - now.keys(), work.session)
