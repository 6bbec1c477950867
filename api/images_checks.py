"""Checks of the images that submissions name."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from api.reviews.edits import Wanted, refused
from api.services import Services
from api.web.problems import MAX_ERRORS, ProblemKind
from domain.delivery import in_parts
from domain.images import ClaimableImages
from domain.reviews_refusals import Refusal
from domain.timestamps import EPOCH
from storage.database import result_or_default

_AT_ONCE: Final = 10
"""Number of reviews whose uploads are looked up concurrently."""


async def check_images(services: Services, wanted: Mapping[int, Wanted]) -> None:
    """Raise ProblemError if one of these reviews, by its index in the request, names an image that it can't have. While
    the database is unavailable all pass: the consumer checks again. Raises the errors of the image store if that is
    unavailable, or another one than before, and the database doesn't know one of the images."""
    ids = {id for item in wanted.values() for id in item.review.images or ()}
    if not ids:
        return
    stored = await result_or_default(services.images.of_ids(ids), None)
    if stored is None:
        return
    uploaded = await _existing_uploads(services, wanted.values(), ids - stored.keys())
    # An image whose upload is gone may have been stored in the meantime.
    stored |= await result_or_default(services.images.of_ids(ids - stored.keys()), {})
    images = ClaimableImages(stored, uploaded, EPOCH)
    reasons: dict[str, Refusal] = {}
    for index, item in wanted.items():
        named = item.review.images or ()
        if reason := images.refusal(named, item.id, item.review.user_id):
            reasons[f"/{index}/images"] = reason
        else:
            images = images.claimed(named, item.id)
    if reasons:
        raise refused(ProblemKind.REFUSED, reasons)


async def _existing_uploads(services: Services, wanted: Collection[Wanted], ids: Collection[str]) -> set[str]:
    """Those of these images whose uploads exist. Once MAX_ERRORS reviews lack an upload, the others aren't looked up,
    and count as existing. Raises the errors of the store: a made-up id must not pass."""
    if ids:
        await services.image_store_check.run()
    named = [set(item.review.images or ()).intersection(ids) for item in wanted]
    missing: set[str] = set()
    looked_up: set[str] = set()
    reviews_lacking = 0
    for batch in in_parts(named, _AT_ONCE):
        batch_ids = list(set().union(*batch) - looked_up)
        found = await asyncio.gather(*(services.image_files.has_upload(id) for id in batch_ids))
        looked_up.update(batch_ids)
        missing.update(id for id, is_there in zip(batch_ids, found, strict=True) if not is_there)
        reviews_lacking += sum(not missing.isdisjoint(each) for each in batch)
        if reviews_lacking >= MAX_ERRORS:
            break
    return set(ids) - missing
