"""Consume uploads of images."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic

from consumers.images.rebuild import rebuild
from consumers.services import Services
from domain.images import (
    SIZES,
    ImageState,
    Rebuilt,
    StoredImage,
    UploadRefusal,
    settle_upload,
    upload_outcome,
    with_settled,
)
from messaging.decoding import Received
from messaging.images import ImageUpload
from messaging.metrics import IMAGE_SECONDS, IMAGES
from storage.images.reviews import ReviewWithImages
from storage.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class UploadConsumer:
    """Rebuilds uploads from their pixels, and shows them with the reviews that have claimed them.

    Delivered at least once, effective once: an image is settled once, and its upload is removed afterwards. Files are
    written before the document of their image; if the image is gone by then, they are removed again. The first outcome
    of an upload counts: of an image that is gone by then it is "not-found". Another file with the id of a settled image
    is refused.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ImageUpload]]) -> None:
        """Settle the uploads of a batch, one after the other."""
        for received in batch:
            upload = received.message
            known = await self.services.images.get(upload.id)
            if known is None or not known.is_settled:
                rebuilt = await self._rebuild(upload)
                image = await self.services.transactions.run(partial(_settle, received, rebuilt))
                IMAGES.labels(image.refusal or image.state.value).inc()
            else:
                # Perhaps it was settled without this upload: its review was deleted, or nobody uploaded it in time.
                await self.services.transactions.run(partial(_answer, received, known))
            await self.services.image_files.remove_upload(upload.id, upload.digest)

    async def _rebuild(self, upload: ImageUpload) -> Rebuilt | UploadRefusal:
        """Rebuild an upload, and put the files of its image into the store. Returns the reason if there is no image."""
        files, mark = self.services.image_files, self.services.image_store_mark
        # After the restore of an older database the upload is gone: use the largest file made of it.
        raw = await files.upload(upload.id, upload.digest) or await files.get(upload.id, SIZES[0])
        await (mark.check(files) if raw is None else mark.write(files))
        started = monotonic()
        result = UploadRefusal.LOST if raw is None else await rebuild(raw, is_exported=upload.exported)
        IMAGE_SECONDS.observe(monotonic() - started)
        if isinstance(result, Rebuilt):
            await files.put(upload.id, result.files)
        return result


async def _settle(received: Received[ImageUpload], result: Rebuilt | UploadRefusal, work: UnitOfWork) -> StoredImage:
    """Store the image made of an upload, and show it in the review that has claimed it, or remove it from there."""
    message, images = received.message, work.repositories.images
    before = (await images.of_ids([message.id], work.session)).get(message.id)
    review = await work.repositories.review_images.get(before.review_id if before else None, work.session)
    # Its age counts from now: the submission that names it may be as late in Kafka as the upload.
    upload = StoredImage(message.id, ImageState.AWAITED, await work.now(), message.uploader, digest=message.digest)
    after = settle_upload(before, upload, result, review.user_id if review else None)
    await _answer(received, after, work)
    if after is before:
        return after
    ready_at = max(after.at, received.at) if after.state is ImageState.READY else None
    await save_settled(after, review, ready_at, work)
    return after


async def _answer(received: Received[ImageUpload], image: StoredImage, work: UnitOfWork) -> None:
    """Answer the upload of a settled image; a redelivery doesn't change the first answer. Have the files removed once
    more if it is gone: an attempt to process this upload may have written them since, also one that was killed."""
    upload = received.message
    outcome, reason = upload_outcome(image, upload.digest)
    work.answer(upload.command_id, image.id, outcome, reason, mark=received.mark)
    if image.state is ImageState.GONE:
        await work.repositories.images.note_unswept(image.id, work.session)


async def save_settled(
    image: StoredImage, review: ReviewWithImages | None, ready_at: datetime | None, work: UnitOfWork
) -> None:
    """Store a settled image and update the review that has claimed it: show the image from `ready_at` on, or remove it
    from the review if `ready_at` is None."""
    await work.repositories.images.save(image, work.session)
    if review is not None:
        shown = review.with_images(with_settled(review.images, image.id, ready_at))
        await work.repositories.review_images.save(shown, work.session)
