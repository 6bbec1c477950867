"""Claims of images by reviews: a new or edited review gets its images in the transaction that stores it."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import structlog

from consumers.services import Services
from domain.delivery import in_parts
from domain.images import ClaimableImages, ready_among, stands_without_unknown, with_readiness
from domain.reviews import Review
from domain.reviews_facts import Source
from domain.reviews_refusals import Refusal
from domain.timestamps import EPOCH
from storage.images.files import is_image_store_away
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
        for part in in_parts(asked, _AT_ONCE):
            await asyncio.gather(*map(look_up, part))
        if missing:
            await services.image_store_mark.check(services.image_files)
    except Exception as error:
        if not is_image_store_away(error):
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
    images = ClaimableImages(stored, uploaded, EPOCH)
    refusals = []
    for review_id, author, source, named in wanted:
        ids = images.without_lost(named, review_id, author, source)
        refusals.append(images.refusal(ids, review_id, author))
    return refusals


async def claimable_images(
    ids: Collection[str], uploaded: Collection[str], at: datetime, work: UnitOfWork
) -> ClaimableImages:
    """The images with these ids that reviews may claim."""
    return ClaimableImages(await work.repositories.images.of_ids(ids, work.session), uploaded, at)


def with_claimed_images(review: Review, images: ClaimableImages) -> Review | Refusal:
    """A new review with the images that it can have, and their readiness; the refusal if it can't do without one of the
    others."""
    named = [image.id for image in review.images]
    ids = images.without_lost(named, review.id, review.user_id, review.facts.source)
    kept = (image for image in review.images if image.id in ids)
    refusal = images.refusal(ids, review.id, review.user_id)
    return refusal or replace(review, images=with_readiness(kept, ready_among(images.stored)))


async def save_images(before: Mapping[str, Review], after: Mapping[str, Review], work: UnitOfWork) -> None:
    """Give edited reviews the images that they have gained, and give up those that they have dropped."""
    now = {image.id: id for id, review in after.items() for image in review.images}
    had = {image.id for id in after for image in before[id].images}
    await work.repositories.images.give(
        {id: review_id for id, review_id in now.items() if id not in had}, datetime.now(UTC), work.session
    )
    await work.repositories.images.give_up(had - now.keys(), work.session)
