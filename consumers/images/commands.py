"""Consume commands that hide or show an image."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from consumers.parking import Overdue, ReviewCommandConsumer
from domain.commands import Outcome
from domain.images import StoredImage, may_come, with_visibility
from domain.permissions import is_within
from domain.ratings import TallyKey
from messaging.dead_letters import image_never_came
from messaging.decoding import Received
from messaging.images import ImageCommand, ReceivedImageCommand, image_command_in, image_command_value
from messaging.topics import Topic
from storage.audit import AuditAction, AuditEntry
from storage.database import Session
from storage.images.reviews import ReviewWithImages
from storage.parking import ParkingRepository
from storage.repositories import Repositories
from storage.unit_of_work import UnitOfWork

Target = tuple[str, str]
"""The ids of a review and an image."""


@dataclass(frozen=True, slots=True)
class ImageCommandConsumer(ReviewCommandConsumer[ReceivedImageCommand]):
    """Hides images of reviews, and shows them again.

    An image stores the positions of the records applied to it, which come in order per image. A command is parked if
    its review is unknown or may still get the image; it is answered "not-found" if the review or the image is gone. Any
    number can wait: those parked for a review are read only once a command about it can be decided on, and are applied
    in several transactions, in order, if they are many.
    """

    @property
    def parking(self) -> ParkingRepository[ReceivedImageCommand]:
        """The parking of commands about images."""
        return self.services.parked_image_commands

    async def __call__(self, batch: Sequence[Received[ImageCommand]]) -> None:
        """Apply a batch."""
        await self.apply([image_command_in(received) for received in batch])

    def target(self, command: ReceivedImageCommand) -> Target:
        """The review and the image of a command."""
        return command.target

    async def missing(self, commands: Sequence[ReceivedImageCommand]) -> set[Target]:
        """The targets of commands that may still come."""
        return (await _load(self.services, commands)).missing(commands)

    def overdue(self, command: ReceivedImageCommand) -> Overdue:
        """A command that is given up."""
        content, position, mark = command
        value, error = image_command_value(content), image_never_came()
        return Overdue(Topic.IMAGE_COMMANDS, position, content.image_id, value, content.command_id, mark, error)

    async def apply_together(
        self, commands: Sequence[ReceivedImageCommand], parked: Sequence[ReceivedImageCommand]
    ) -> set[Target]:
        """Apply commands in one transaction; returns the missing targets."""
        return await self.services.transactions.run(partial(_apply_together, commands, parked))


@dataclass(slots=True)
class _Targets:
    """The images and reviews that commands are about, as they are after the commands decided so far."""

    images: dict[str, StoredImage]
    reviews: dict[str, ReviewWithImages]
    gone: Collection[str]
    """Ids of deleted and refused reviews."""
    answered: set[tuple[str | None, str]] = field(default_factory=set)
    """Commands and images with an outcome."""
    seen: set[str] = field(default_factory=set)
    """Ids of the images with new marks."""
    modified: dict[str, datetime] = field(default_factory=dict)
    """The times of changes of the reviews, by their ids."""

    def missing(self, commands: Iterable[ReceivedImageCommand]) -> set[Target]:
        """The targets of commands that may still come."""
        return {command.target for command in commands if self._may_come(*command.target)}

    def set_visibility(self, received: ReceivedImageCommand, image: StoredImage, review: ReviewWithImages) -> bool:
        """Hide or show an image of a review; True if that changes the review."""
        self.images[image.id] = replace(image, seen=image.seen.after(received.position))
        self.seen.add(image.id)
        images = with_visibility(review.images, image.id, hidden=received.command.is_to_hide)
        if images == review.images:
            return False
        self.reviews[review.id] = review.with_images(images)
        self.modified[review.id] = max(received.at, self.modified.get(review.id, received.at))
        return True

    def _may_come(self, review_id: str, image_id: str) -> bool:
        image, review = self.images.get(image_id), self.reviews.get(review_id)
        if image is not None and review is not None and review.image(image_id):
            return False
        return may_come(image) and review_id not in self.gone


async def _load(
    stored: Repositories, commands: Collection[ReceivedImageCommand], session: Session | None = None
) -> _Targets:
    ids = {command.review_id for command in commands}
    images = await stored.images.of_ids({command.command.image_id for command in commands}, session)
    reviews = await stored.review_images.of_ids(ids, session)
    return _Targets(images, reviews, (await stored.reviews.holders(ids - reviews.keys(), session)).keys())


async def _apply_together(
    commands: Sequence[ReceivedImageCommand], parked: Sequence[ReceivedImageCommand], work: UnitOfWork
) -> set[Target]:
    """Apply commands in a transaction, and remove the `parked` ones among them from the parking; returns the targets
    that may still come, whose commands are left as they are."""
    stored, session = work.repositories, work.session
    targets = await _load(stored, commands, session)
    missing = targets.missing(commands)
    come = [command for command in commands if command.target not in missing]
    waited = come if parked else ()
    # Others may have applied them, or given them up, meanwhile.
    due = await stored.parked_image_commands.take_among(come, waited, session)
    keys = [(id, received.command.image_id) for received in due if (id := received.command.command_id)]
    targets.answered.update(await stored.outcomes.answers(keys, session))
    for received in due:
        _decide(received, targets, work)
    for id in targets.seen:
        await stored.images.save_seen(targets.images[id], session)
    for id, at in targets.modified.items():
        await stored.review_images.save(targets.reviews[id], session, at)
    return missing


def _decide(received: ReceivedImageCommand, targets: _Targets, work: UnitOfWork) -> None:
    """Hide or show an image, unless the command is a repeat, and answer the command."""
    command, position, mark = received
    image, review = targets.images.get(command.image_id), targets.reviews.get(command.review_id)
    key, reason, is_changed = (command.command_id, command.image_id), None, False
    if image is None or review is None or not review.image(image.id):
        outcome = Outcome.NOT_FOUND
    elif image.seen.covers(position) or key in targets.answered:
        return
    elif not is_within(command.stores, review.store_id):
        outcome, reason = Outcome.REFUSED, "other-store"
    else:
        is_changed = targets.set_visibility(received, image, review)
        outcome = Outcome.APPLIED if is_changed else Outcome.UNCHANGED
    work.answer(*key, outcome, reason, mark=mark)
    if command.command_id:
        targets.answered.add(key)
    if is_changed and review is not None:
        work.audit([_audit_entry(received, review)])


def _audit_entry(received: ReceivedImageCommand, review: ReviewWithImages) -> AuditEntry:
    command = received.command
    entry = AuditEntry(
        received.at,
        command.moderator,
        AuditAction.HIDE_IMAGE if command.is_to_hide else AuditAction.SHOW_IMAGE,
        reason=command.reason,
        command_id=command.command_id,
        fields=(command.image_id,),
    )
    return entry.about(review.id, TallyKey(review.entity, review.store_id))
