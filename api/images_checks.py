"""Checks of the images that submissions name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from api.reviews.edits import Wanted
from api.services import Services
from api.web.problems import ItemError, ProblemError, ProblemKind
from domain.images import StoredImage, held, holders_after
from domain.stores import Refusal
from domain.timestamps import EPOCH
from messaging.metrics import SUBMISSIONS
from storage.database import unless_away
from storage.images_files import is_store_away


async def check_images(services: Services, wanted: Mapping[int, Wanted]) -> None:
    """Raises ProblemError when one of these reviews, by their places in the request, names an image that it can't have.
    While the database or the store of images is unavailable all pass: the consumer tells."""
    ids = {id for item in wanted.values() for id in item.review.images or ()}
    if not ids:
        return
    stored = await unless_away(services.images.of_ids(ids), None)
    if stored is None:
        return
    uploaded = await _uploaded(services, ids - stored.keys())
    # What has been stored since its upload was gone is found now.
    stored |= await unless_away(services.images.of_ids(ids - stored.keys()), {})
    errors: list[ItemError] = []
    for index, item in wanted.items():
        found = _holders(stored, uploaded, item)
        if isinstance(found, Refusal):
            errors.append({"pointer": f"/{index}/images", "code": found.value, "message": found.message})
            SUBMISSIONS.labels(found.value).inc()
        else:
            stored = held(stored, found, EPOCH)
    if errors:
        raise ProblemError(ProblemKind.REFUSED, f"{errors[0]['message']} Nothing was accepted.", errors)


def _holders(stored: dict[str, StoredImage], uploaded: Collection[str], item: Wanted) -> dict[str, str] | Refusal:
    return holders_after(stored, uploaded, item.review.images or (), item.id, item.review.user_id)


async def _uploaded(services: Services, ids: Collection[str]) -> set[str]:
    """Those of these images whose uploads are there; all of them where that can't be told."""
    try:
        return {id for id in ids if await services.image_files.has_upload(id)}
    except Exception as error:
        if not is_store_away(error):
            raise
        return set(ids)
