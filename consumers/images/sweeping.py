"""Periodic clean-up of images: give up unused ones, and remove the files of those that are gone.

A run handles at most _AT_ONCE images, so that other work gets its turn.
"""

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from consumers.images.consumer import save_settled
from consumers.services import Services
from domain.images import UNUSED_FOR, StoredImage, UploadRefusal, settle_upload
from storage.shapes import StoredDocumentError, log_damage
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()

_AT_ONCE: Final = 500
_RETRY_AFTER: Final = timedelta(hours=1)
"""Time between two attempts to remove files that can't be removed."""
_NAMED: Final = 5


async def sweep_images(services: Services, now: datetime, read_up_to: Callable[[], Awaitable[datetime]]) -> None:
    """Remove the files of images that are gone, and give up unused images.

    `read_up_to` returns the time up to which submissions have been read; an unread one may use an image.
    """
    images = services.images
    # Images that are gone don't depend on the lag of submissions.
    if unswept := await images.unswept(now - _RETRY_AFTER, _AT_ONCE):
        left = await _remove(services, list(unswept), now)
        await images.note_swept({id: mark for id, mark in unswept.items() if id not in left})
    if await images.are_unused(now - UNUSED_FOR) and (
        count := await images.give_up_unused(await read_up_to() - UNUSED_FOR)
    ):
        log.info("removing unused images", count=count)


async def forget_images(services: Services, now: datetime, remember: timedelta) -> bool:
    """Forget images that have been gone for `remember`, so that no upload of theirs can be redelivered. False if there
    are more.

    Their files are removed again: a worker that was presumed dead may have written them since. Images whose files can't
    be removed are left to `sweep_images` until they are. Uploads whose command never arrived are removed, too. Images
    that were never uploaded are removed from the reviews that await them.
    """
    images = services.images
    if ids := await images.gone_before(now - remember, _AT_ONCE):
        left = await _remove(services, ids, now)
        await images.forget([id for id in ids if id not in left])
    if len(ids) == _AT_ONCE:
        return False
    # Check before listing: otherwise another store would be listed completely every few seconds.
    await services.image_store_mark.check(services.image_files)
    if count := await services.image_files.remove_old_uploads(now - remember):
        log.info("removed uploads for which no message was published", count=count)
    awaited = await images.awaited_before(now - UNUSED_FOR, _AT_ONCE)
    # An upload is stored before its image can be named, and is kept until the image is settled.
    if missing := [id for id in awaited if not await services.image_files.has_upload(id)]:
        await services.image_store_mark.check(services.image_files)
        log.warning("giving up images of reviews that were never uploaded", images=missing[:_NAMED], count=len(missing))
    for id in missing:
        try:
            await services.transactions.run(partial(_give_up_awaited, id, now))
        except StoredDocumentError as error:
            log_damage("an image without an upload waits because of a damaged document", id=id, error=str(error))
    return True


async def _give_up_awaited(id: str, now: datetime, work: UnitOfWork) -> None:
    """Refuse an image that has no upload, unless it has been settled meanwhile, and remove it from its review."""
    image = (await work.repositories.images.of_ids([id], work.session)).get(id)
    if image is not None and not image.is_settled:
        review = await work.repositories.review_images.get(image.review_id, work.session)
        lost = settle_upload(image, StoredImage(id, image.state, now), UploadRefusal.LOST, None)
        await save_settled(lost, review, None, work)


async def _remove(services: Services, ids: Collection[str], now: datetime) -> set[str]:
    """Remove the files of images. Records and returns the ids whose files can't be removed, for example under a legal
    hold. Raises GenericError if the store lacks its mark: the files are in another store, and would stay there."""
    await services.image_store_mark.check(services.image_files)
    if left := await services.image_files.remove(ids):
        log.warning("files of images can't be removed", images=sorted(left)[:_NAMED], count=len(left))
        await services.images.note_unremovable(left, now)
    return left
