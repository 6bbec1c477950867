"""Consume uploads of images, and commands that hide or show one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from time import monotonic

import structlog

from consumers.images_mark import check_store, mark_store
from consumers.images_rebuild import rebuild
from consumers.parking import MOST_OVERDUE, Overdue, give_up
from consumers.services import Services
from domain.commands import Outcome
from domain.images import (
    SIZES,
    ImageState,
    Rebuilt,
    StoredImage,
    UploadRefusal,
    may_come,
    settle_upload,
    with_settled,
    with_visibility,
)
from domain.permissions import is_within
from messaging.dead_letters import image_never_came
from messaging.decoding import Received
from messaging.images import ImageCommand, ImageUpload, ReceivedImageCommand, image_command_in, image_command_value
from messaging.metrics import IMAGE_SECONDS, IMAGES
from messaging.topics import Topic
from storage.audit import AuditAction, AuditEntry
from storage.images_reviews import ReviewWithImages
from storage.shapes import StoredDocumentError
from storage.unit_of_work import UnitOfWork

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class UploadConsumer:
    """Rebuilds uploads from their pixels, and shows them with the reviews that have claimed them.

    Delivered at least once, effective once: an image is settled once, and its upload is removed afterwards. Files are
    written before the document of their image; if the image is gone by then, they are removed again. The first outcome
    of an upload counts: of an image that is gone by then it is "not-found".
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ImageUpload]]) -> None:
        """Settle the uploads of a batch, one after the other."""
        for received in batch:
            upload = received.message
            known = await self.services.images.get(upload.id)
            if known is None or not known.is_settled:
                await self._settle(received)
            else:
                # Perhaps it was settled without this upload: its review was deleted, or nobody uploaded it in time.
                await self.services.transactions.run(partial(_answer, received, known))
            await self.services.image_files.remove_upload(upload.id, upload.digest)

    async def _settle(self, received: Received[ImageUpload]) -> None:
        upload, files = received.message, self.services.image_files
        # After the restore of an older database the upload is gone: use the largest file made of it.
        raw = await files.upload(upload.id, upload.digest) or await files.get(upload.id, SIZES[0])
        await (check_store(self.services) if raw is None else mark_store(self.services))
        started = monotonic()
        result = UploadRefusal.LOST if raw is None else await rebuild(raw, is_exported=upload.exported)
        IMAGE_SECONDS.observe(monotonic() - started)
        if isinstance(result, Rebuilt):
            await files.put(upload.id, result.files)
        image = await self.services.transactions.run(partial(_settle, received, result))
        IMAGES.labels(image.refusal or image.state.value).inc()


async def _settle(received: Received[ImageUpload], result: Rebuilt | UploadRefusal, work: UnitOfWork) -> StoredImage:
    """Store the image made of an upload, and show it in the review that has claimed it, or remove it from there."""
    message, images = received.message, work.repositories.images
    before = (await images.of_ids([message.id], work.session)).get(message.id)
    review = await work.repositories.review_images.get(before.review_id if before else None, work.session)
    # Its age counts from now: the submission that names it may be as late in Kafka as the upload.
    upload = StoredImage(message.id, ImageState.AWAITED, await work.now(), message.uploader)
    after = settle_upload(before, upload, result, review.user_id if review else None)
    await _answer(received, after, work)
    if after is before:
        # If it is gone, this redelivery may have written its files again.
        await images.note_unswept(message.id, work.session)
        return after
    ready_at = max(after.at, received.at) if after.state is ImageState.READY else None
    await save_settled(after, review, ready_at, work)
    return after


async def _answer(received: Received[ImageUpload], image: StoredImage, work: UnitOfWork) -> None:
    """Answer the upload of a settled image; a redelivery doesn't change the first answer."""
    outcome = Outcome.REFUSED if image.refusal else Outcome.APPLIED
    if image.state is ImageState.GONE:
        outcome = Outcome.NOT_FOUND
    reason = image.refusal and image.refusal.value
    work.answer(received.message.command_id, image.id, outcome, reason, mark=received.mark)


async def save_settled(
    image: StoredImage, review: ReviewWithImages | None, ready_at: datetime | None, work: UnitOfWork
) -> None:
    """Store a settled image and update the review that has claimed it: show the image from `ready_at` on, or remove it
    from the review if `ready_at` is None."""
    await work.repositories.images.save(image, work.session)
    if review is not None:
        shown = review.with_images(with_settled(review.images, image.id, ready_at))
        await work.repositories.review_images.save(shown, work.session)


@dataclass(frozen=True, slots=True)
class ImageCommandConsumer:
    """Hides images of reviews, and shows them again.

    An image stores the positions of the records applied to it, which come in order per image. A command is parked if
    its review is unknown or may still get the image; it is answered "not-found" if the review or the image is gone.
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ImageCommand]]) -> None:
        """Apply a batch."""
        commands = [image_command_in(received) for received in batch]
        if early := await self._apply(commands, {command.review_id for command in commands}):
            # Park first, then look up: the submission consumer stores first, then looks for parked commands, so one of
            # the two sees the other.
            await self.services.parked_image_commands.park(early)
            await self.release({command.review_id for command in early})

    async def release(self, review_ids: Collection[str]) -> None:
        """Apply the commands parked for images that these reviews have."""
        await self._apply((), review_ids)

    async def report_overdue(self, before: datetime) -> int:
        """Give up commands parked before that moment: dead-letter and answer them. Returns the number given up.

        Commands whose image has arrived are applied: a worker of an earlier version doesn't release them. Commands
        about a damaged review or image wait for its repair.
        """
        parking = self.services.parked_image_commands
        damaged = set[str]()
        count = 0
        # Skip what waits for a repair, so that the rest gets its turn.
        while waiting := await parking.parked_before(before, MOST_OVERDUE, except_reviews=damaged):
            for id in {each.review_id for each in waiting}:
                try:
                    await self.release({id})
                except StoredDocumentError as error:
                    log.error("commands about images wait because of a damaged document", review=id, error=str(error))
                    damaged.add(id)
            overdue = [each for each in waiting if each.review_id not in damaged]
            count += len(await give_up(self.services, parking, overdue, _overdue))
        return count

    async def _apply(
        self, commands: Sequence[ReceivedImageCommand], review_ids: Collection[str]
    ) -> list[ReceivedImageCommand]:
        """Apply commands, after those already parked for the same reviews; returns the commands to park."""
        parking = self.services.parked_image_commands
        parked = await parking.about(review_ids) if review_ids else []
        known = {command.position for command in parked}
        everything = [*parked, *(command for command in commands if command.position not in known)]
        if not everything:
            return []
        early = await self.services.transactions.run(partial(_apply, everything))
        await parking.release([command for command in parked if command not in early])
        return [command for command in early if command.position not in known]


def _overdue(received: ReceivedImageCommand) -> Overdue:
    command, position, mark = received
    value, error = image_command_value(command), image_never_came()
    return Overdue(Topic.IMAGE_COMMANDS, position, command.image_id, value, command.command_id, mark, error)


async def _apply(commands: Sequence[ReceivedImageCommand], work: UnitOfWork) -> list[ReceivedImageCommand]:
    """Apply commands; returns those that came too early."""
    early = []
    for received in commands:
        command = received.command
        stored, id = work.repositories, command.review_id
        image = (await stored.images.of_ids([command.image_id], work.session)).get(command.image_id)
        review = await stored.review_images.get(id, work.session)
        if image is not None and review is not None and review.image(image.id):
            await _set_visibility(received, image, review, work)
        elif may_come(image) and (review or not await stored.reviews.holders([id], work.session)):
            early.append(received)
        else:
            work.answer(command.command_id, command.image_id, Outcome.NOT_FOUND, mark=received.mark)
    return early


async def _set_visibility(
    received: ReceivedImageCommand, image: StoredImage, review: ReviewWithImages, work: UnitOfWork
) -> None:
    command, position, mark = received
    if image.seen.covers(position) or await work.is_answered(command.command_id, image.id):
        return
    if not is_within(command.stores, review.store_id):
        work.answer(command.command_id, image.id, Outcome.REFUSED, "other-store", mark=mark)
        return
    await work.repositories.images.save_seen(replace(image, seen=image.seen.after(position)), work.session)
    images = with_visibility(review.images, image.id, hidden=command.is_to_hide)
    is_changed = images != review.images
    work.answer(command.command_id, image.id, Outcome.APPLIED if is_changed else Outcome.UNCHANGED, mark=mark)
    if is_changed:
        await work.repositories.review_images.save(review.with_images(images), work.session, received.at)
        work.audit([_audit_entry(received, review)])


def _audit_entry(received: ReceivedImageCommand, review: ReviewWithImages) -> AuditEntry:
    command = received.command
    return AuditEntry(
        at=received.at,
        subject=command.moderator,
        action=AuditAction.HIDE_IMAGE if command.is_to_hide else AuditAction.SHOW_IMAGE,
        review_id=review.id,
        entity=review.entity,
        store_id=review.store_id,
        reason=command.reason,
        command_id=command.command_id,
        fields=(command.image_id,),
    )
