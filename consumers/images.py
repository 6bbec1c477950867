"""Consume uploads of images, and commands that hide or show one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic

from consumers.images_rebuild import rebuild
from consumers.services import Services
from domain.commands import Outcome
from domain.images import SIZES, ImageState, Rebuilt, StoredImage, UploadRefusal, settled, with_settled, with_visibility
from domain.permissions import is_within
from messaging.decoding import Received
from messaging.envelope import mark_in
from messaging.images import ImageCommand, ImageUpload
from messaging.metrics import IMAGE_SECONDS, IMAGES
from storage.audit import AuditEntry, Imaging
from storage.images_reviews import ReviewWithImages
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class UploadConsumer:
    """Rebuilds uploads from their pixels, and shows them with the reviews that have claimed them.

    Delivered at least once, effective once: an image is settled once, and its upload removed after that. Files come
    before the image that tells of them; of an image that went meanwhile they are removed again.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ImageUpload]]) -> None:
        """Settle uploads, one after the other."""
        for received in batch:
            upload = received.message
            known = await self.services.images.get(upload.id)
            if known is None or not known.is_settled:
                await self._settle(received)
            await self.services.image_files.remove_upload(upload.id, upload.digest)

    async def _settle(self, received: Received[ImageUpload]) -> None:
        upload, files = received.message, self.services.image_files
        # After a restore of an older database: what was made of it then.
        raw = await files.upload(upload.id, upload.digest) or await files.get(upload.id, SIZES[0])
        started = monotonic()
        result = UploadRefusal.LOST if raw is None else await rebuild(raw, is_exported=upload.exported)
        IMAGE_SECONDS.observe(monotonic() - started)
        if isinstance(result, Rebuilt):
            await files.put(upload.id, result.files)
        image = await self.services.transactions.run(partial(_settle, received, result))
        IMAGES.labels(image.refusal or image.state.value).inc()


async def _settle(received: Received[ImageUpload], result: Rebuilt | UploadRefusal, work: UnitOfWork) -> StoredImage:
    """Store an image as its upload made it, and show or remove it where a review has claimed it."""
    message, images = received.message, work.repositories.images
    before = (await images.of_ids([message.id], work.session)).get(message.id)
    review = await work.repositories.review_images.get(before.review_id if before else None, work.session)
    # From now on: the submission that names it may have waited in Kafka for as long as the upload.
    upload = StoredImage(message.id, ImageState.AWAITED, datetime.now(UTC), message.uploader)
    after = settled(before, upload, result, review.user_id if review else None)
    mark = mark_in(received.record.headers)
    outcome = Outcome.REFUSED if after.refusal else Outcome.APPLIED
    work.answer(message.command_id, message.id, outcome, after.refusal and after.refusal.value, mark=mark)
    if after is before:
        # Its files may have been written once more.
        await images.note_unswept(message.id, work.session)
        return after
    await images.save(after, work.session)
    if review is not None:
        shown = review.with_images(with_settled(review.images, message.id, after.state))
        await work.repositories.review_images.save(shown, work.session)
    return after


@dataclass(frozen=True, slots=True)
class ImageCommandConsumer:
    """Hides images of reviews, and shows them again.

    Delivered at least once, in the order of each image, effective once: an image knows the records that it has taken
    into account. Review, audit entry and answer are one transaction.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ImageCommand]]) -> None:
        """Apply a batch."""
        await self.services.transactions.run(partial(_apply, batch))


async def _apply(batch: Sequence[Received[ImageCommand]], work: UnitOfWork) -> None:
    for received in batch:
        command = received.message
        image = (await work.repositories.images.of_ids([command.image_id], work.session)).get(command.image_id)
        review = await work.repositories.review_images.get(command.review_id, work.session)
        shown = review.image(command.image_id) if review else None
        mark = mark_in(received.record.headers)
        if image is None or review is None or shown is None:
            work.answer(command.command_id, command.image_id, Outcome.NOT_FOUND, mark=mark)
        elif image.seen.covers(received.position) or await work.is_answered(command.command_id, command.image_id):
            continue
        elif not is_within(command.stores, review.store_id):
            work.answer(command.command_id, command.image_id, Outcome.REFUSED, "other-store", mark=mark)
        else:
            await work.repositories.images.save_seen(
                replace(image, seen=image.seen.after(received.position)), work.session
            )
            is_changed = shown.is_hidden is not command.is_to_hide
            outcome = Outcome.APPLIED if is_changed else Outcome.UNCHANGED
            work.answer(command.command_id, command.image_id, outcome, mark=mark)
            if is_changed:
                images = with_visibility(review.images, command.image_id, hidden=command.is_to_hide)
                await work.repositories.review_images.save(review.with_images(images), work.session, received.at)
                work.audit([_audit_entry(received, review)])


def _audit_entry(received: Received[ImageCommand], review: ReviewWithImages) -> AuditEntry:
    command = received.message
    return AuditEntry(
        at=received.at,
        subject=command.moderator,
        action=Imaging.HIDE if command.is_to_hide else Imaging.SHOW,
        review_id=review.id,
        entity=review.entity,
        store_id=review.store_id,
        reason=command.reason,
        command_id=command.command_id,
        fields=(command.image_id,),
    )
