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
    settled,
    with_settled,
    with_visibility,
)
from domain.permissions import is_within
from messaging.dead_letters import image_never_came
from messaging.decoding import Received
from messaging.envelope import mark_in
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
        await (check_store(self.services) if raw is None else mark_store(self.services))
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
    upload = StoredImage(message.id, ImageState.AWAITED, await work.now(), message.uploader)
    after = settled(before, upload, result, review.user_id if review else None)
    mark = mark_in(received.record.headers)
    outcome = Outcome.REFUSED if after.refusal else Outcome.APPLIED
    work.answer(message.command_id, message.id, outcome, after.refusal and after.refusal.value, mark=mark)
    if after is before:
        # Its files may have been written once more.
        await images.note_unswept(message.id, work.session)
        return after
    ready_at = max(after.at, received.at) if after.state is ImageState.READY else None
    await save_settled(after, review, ready_at, work)
    return after


async def save_settled(
    image: StoredImage, review: ReviewWithImages | None, ready_at: datetime | None, work: UnitOfWork
) -> None:
    """Store an image that is settled, and show it since `ready_at` with the review that has claimed it, or, where that
    is None, remove it from there."""
    await work.repositories.images.save(image, work.session)
    if review is not None:
        shown = review.with_images(with_settled(review.images, image.id, ready_at))
        await work.repositories.review_images.save(shown, work.session)


@dataclass(frozen=True, slots=True)
class ImageCommandConsumer:
    """Hides images of reviews, and shows them again.

    Delivered at least once, in the order of each image, effective once: an image knows the records that it has taken
    into account. Review, audit entry and answer are one transaction. A command whose review is unknown, or is still to
    get the image, is parked; one about what is gone is answered "not-found".
    """

    services: Services

    async def __call__(self, batch: Sequence[Received[ImageCommand]]) -> None:
        """Apply a batch."""
        commands = [image_command_in(received) for received in batch]
        if early := await self._apply(commands, {command.review_id for command in commands}):
            # Parked first, looked up then: the consumer of submissions does it the other way round, so one of the two
            # sees the other.
            await self.services.parked_image_commands.park(early)
            await self.release({command.review_id for command in early})

    async def release(self, review_ids: Collection[str]) -> None:
        """Apply the parked commands about images that these reviews have by now."""
        await self._apply((), review_ids)

    async def report_overdue(self, before: datetime) -> int:
        """Give up commands parked before that moment: dead-letter and answer them. Returns how many there were.

        Those whose image has come, to a worker of a version that lets none go on, are applied. Those about a review
        that is damaged, or has a damaged image that they are about, wait until somebody has mended it.
        """
        parking, damaged, count = self.services.parked_image_commands, set[str](), 0
        # However many wait for something damaged, others get their turn.
        while waiting := await parking.parked_before(before, MOST_OVERDUE, apart=damaged):
            for id in {each.review_id for each in waiting}:
                try:
                    await self.release({id})
                except StoredDocumentError as error:
                    log.error("commands about images wait for something damaged", review=id, error=str(error))
                    damaged.add(id)
            overdue = [each for each in waiting if each.review_id not in damaged]
            count += len(await give_up(self.services, parking, overdue, _overdue))
        return count

    async def _apply(
        self, commands: Sequence[ReceivedImageCommand], review_ids: Collection[str]
    ) -> list[ReceivedImageCommand]:
        """Apply commands, each behind those that were parked about its review before it came; returns those that are
        to be parked."""
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
    action = AuditAction.HIDE_IMAGE if command.is_to_hide else AuditAction.SHOW_IMAGE
    about, told = (review.id, review.entity, review.store_id), (command.reason, command.command_id)
    return AuditEntry(received.at, command.moderator, action, *about, *told, fields=(command.image_id,))
