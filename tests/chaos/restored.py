"""Reviews imported from another system with their past: status, dates, flags and facts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

from tests.chaos.generator import SHOP_OPENED, Actor, World
from tests.chaos.model import MOVED_STORE, Json, Model
from tests.chaos.rules import TEXTS

STATUSES = ("Approved", "Approved", "Rejected", "New")
SOURCES = ("import", "import", "import", "api", None)


class Mover(Actor):
    """Imports reviews into a store whose rules would hold some of them, restores their past, and decides on some.

    Messages to `moderation-commands` have the review's id as key, so they keep their order.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.mine: list[str] = []

    def deeds(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        later = [(self.restore_again, 2), (self.decide, 2), (self.repeat_some, 2)] if self.mine else []
        return [(self.bring, 3), *later]

    async def bring(self) -> None:
        """Publish reviews and their pasts, the latter at times first."""
        for _ in range(self.chance.randint(1, 5)):
            id, written = self.new_id("moved"), self.moment(0)
            text = f"{self.chance.choice(TEXTS)} {id}"
            review = self.review(id=id, storeId=MOVED_STORE, review=text, source="import", writtenDate=written)
            pasts = [self.past(id) for _ in range(1 if self.world.is_mixed else self.chance.choice((1, 1, 2)))]
            is_early = self.chance.random() < 0.3
            for past in pasts if is_early else ():
                await self.tell("moderation-commands", id, past)
            await self.tell("review-submissions", f"Product:{review['EntityId']}", review)
            self.world.model.submit(id, review)
            self.world.model.pasts[id] = {"createdDate": written, "flags": [], "source": "import"}
            for past in () if is_early else pasts:
                await self.tell("moderation-commands", id, past)
            self.world.ledger.acknowledge(f"brought along {'behind' if is_early else 'before'} its past", id)
            for past in pasts:
                self.restore(id, past)
            self.mine.append(id)
        del self.mine[:-20]

    async def restore_again(self) -> None:
        await self.tell_past(self.chance.choice(self.mine))

    async def tell_past(self, id: str) -> None:
        """Publish one more past. It counts if it is newer than the previous one and nobody has decided since."""
        if self.world.is_mixed and id not in self.world.model.settled:
            return
        past = self.past(id)
        await self.tell("moderation-commands", id, past)
        self.restore(id, past)

    async def decide(self) -> None:
        """Make a decision here, which no later past undoes."""
        id, action = self.chance.choice(self.mine), self.chance.choice(("approve", "reject", "reset", "delete"))
        command = {"action": action, "ids": [id], "moderator": self.name, "commandId": self.new_id("command")}
        await self.tell("moderation-commands", id, command)
        outcome = self.world.model.decide_moved(action, id, self.name)
        self.world.ledger.acknowledge(f"{action} by Kafka: {outcome}", id)
        if action == "delete":
            self.mine.remove(id)
        await self.tell_past(id)

    def restore(self, id: str, past: Json) -> None:
        """Apply a past to the model."""
        outcome = self.world.model.restore(id, past)
        self.world.ledger.acknowledge(f"restored to {past['restored']}: {outcome}", id)

    def past(self, id: str) -> Json:
        chance, status = self.chance, self.chance.choice(STATUSES)
        return {
            "action": "restore",
            "ids": [id],
            "moderator": self.new_id("moderator"),
            "reason": self.new_id("reason"),
            **({"reasonCode": chance.choice(("spam", "off-topic"))} if status == "Rejected" else {}),
            "commandId": self.new_id("command"),
            "restored": {
                "status": status,
                "modifiedDate": self.moment(200),
                "flags": chance.choice([None, [], ["words"], ["links", "gone-rule"]]),
                "source": chance.choice(SOURCES),
                "language": chance.choice([None, "de", "en"]),
                "verifiedPurchase": chance.random() < 0.3,
            },
        }

    def moment(self, day: int) -> str:
        """A time within the 200 days that begin 400 - `day` days before `SHOP_OPENED`."""
        at = SHOP_OPENED - timedelta(days=400 - day) + timedelta(milliseconds=self.chance.randrange(200 * 86_400_000))
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def wrong_pasts(model: Model, shown: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Id and description of each imported review whose past differs from the model's."""
    actual = {id: {name: shown.get(id, {}).get(name) for name in past} for id, past in model.pasts.items()}
    return [(id, f"past {actual[id]}, expected {past}") for id, past in model.pasts.items() if actual[id] != past]
