"""Parking of commands whose review is unknown. If it never arrives, they become dead letters, and are answered
"not-found"."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, NamedTuple

from consumers.services import Services
from domain.commands import CommandMark, Outcome
from domain.delivery import RecordPosition
from messaging.dead_letters import rebuilt_dead_letter, review_never_came
from messaging.decoding import InvalidMessageError
from messaging.topics import Topic
from storage.parking import ParkingRepository, T
from storage.shapes import StoredDocumentError, log_damage
from storage.unit_of_work import UnitOfWork

MOST_OVERDUE: Final = 500
"""Maximum number of commands that are given up at a time."""


class Overdue(NamedTuple):
    """A parked command that is given up: the record for its dead letter, and the item to answer."""

    topic: Topic
    position: RecordPosition
    item_id: str
    value: object
    command_id: str | None = None
    mark: CommandMark | None = None
    error: InvalidMessageError = review_never_came()


async def give_up(
    services: Services,
    parking: ParkingRepository[T],
    parked: Sequence[T],
    overdue_of: Callable[[T], Overdue],
    *,
    unless_arrived: bool = False,
) -> list[T]:
    """Dead-letter and answer those of these commands that are still parked, and return them. `unless_arrived`: those
    whose review is stored by now stay parked, since they may be forwarded at this moment."""

    async def take(work: UnitOfWork) -> list[T]:
        wanted = parked
        if unless_arrived:
            entities = await work.repositories.reviews.entities({each.review_id for each in parked}, work.session)
            wanted = [each for each in parked if entities.get(each.review_id) is None]
        given_up = await parking.take(wanted, work.session)
        for topic, position, item_id, value, command_id, mark, error in map(overdue_of, given_up):
            name = services.topics.name(topic)
            work.emit([rebuilt_dead_letter(name, position, key=item_id, value=value, error=error)])
            work.answer(command_id, item_id, Outcome.NOT_FOUND, mark=mark)
        return given_up

    return await services.transactions.run(take)


@dataclass(frozen=True, slots=True)
class ReviewCommandConsumer(ABC, Generic[T]):
    """A consumer of commands about reviews: parks those that come too early, and applies them once what they concern is
    stored, before later ones."""

    services: Services

    @property
    @abstractmethod
    def parking(self) -> ParkingRepository[T]:
        """The parking of its commands."""

    @abstractmethod
    async def apply_together(self, commands: Sequence[T], parked: Sequence[T]) -> AbstractSet[Hashable]:
        """Apply commands in one transaction, which removes the `parked` ones among them from the parking. Returns the
        targets that are missing after all, whose commands are left as they are."""

    @abstractmethod
    def overdue(self, command: T) -> Overdue:
        """A command that is given up."""

    def target(self, command: T) -> Hashable:
        """The target that a command waits for: its review."""
        return command.review_id

    async def erased(self, commands: Sequence[T]) -> Sequence[T]:
        """Those of these commands whose sender was erased since, so that applying them only answers them."""
        return ()

    async def missing(self, commands: Sequence[T]) -> AbstractSet[Hashable]:
        """The targets of commands that may still come."""
        ids = {command.review_id for command in commands}
        return ids - (await self.services.reviews.entities(ids)).keys()

    async def apply(self, commands: Sequence[T]) -> None:
        """Apply commands, and park those that came too early."""
        missing = await self.missing(commands)
        come = [command for command in commands if self.target(command) not in missing]
        missing |= await self._apply(come, {command.review_id for command in come})
        if early := [command for command in commands if self.target(command) in missing]:
            # Park first, then look up: the submission consumer stores first, then looks for parked commands, so one of
            # the two sees the other. An erasure leaves its mark first, then removes what is parked.
            await self.parking.park(early)
            if erased := await self.erased(early):
                await self.apply_together(erased, erased)
            await self._release_come(early)

    async def release(self, review_ids: Collection[str]) -> None:
        """Apply the commands parked for these reviews, which are stored."""
        await self._apply((), review_ids)

    async def give_up_overdue(self, before: datetime) -> int:
        """Give up at most MOST_OVERDUE commands parked before that moment: dead-letter and answer them. Those that can
        be decided on by now are applied instead. Returns the number given up.

        Commands about a damaged review wait for its repair. They are skipped, so that the others get their turn.
        """
        damaged = set[str]()
        while waiting := await self.parking.overdue(before, MOST_OVERDUE, except_reviews=damaged):
            for id in {each.review_id for each in waiting}:
                try:
                    await self._release_come([each for each in waiting if each.review_id == id])
                except StoredDocumentError as error:
                    log_damage("parked commands wait because of a damaged document", id=id, error=str(error))
                    damaged.add(id)
            if overdue := [each for each in waiting if each.review_id not in damaged]:
                return len(await give_up(self.services, self.parking, overdue, self.overdue))
        return 0

    async def _release_come(self, parked: Sequence[T]) -> None:
        """Apply the commands parked for the same reviews as those of these whose target has come."""
        missing = await self.missing(parked)
        await self.release({command.review_id for command in parked if self.target(command) not in missing})

    async def _apply(self, commands: Sequence[T], review_ids: Collection[str]) -> set[Hashable]:
        """Apply commands, after those already parked for these reviews, in pieces; returns the missing targets."""
        fresh = {(command.position, command.review_id): command for command in commands}
        missing = set[Hashable]()
        async for parked in self.parking.about(review_ids):
            # If a target comes between two parts, its commands still don't overtake those left in the parking.
            due = [command for command in parked if self.target(command) not in missing]
            missing |= await self.apply_together(due, due)
            for command in parked:
                fresh.pop((command.position, command.review_id), None)
        if due := [command for command in fresh.values() if self.target(command) not in missing]:
            missing |= await self.apply_together(due, ())
        return missing
