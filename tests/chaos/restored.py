"""Reviews imported from another system with their past: status, dates, flags and facts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

from tests.chaos.actors import SHOP_OPENED, Actor, World
from tests.chaos.model import IMPORT_STORE, STATUS_AFTER, Json, Model
from tests.chaos.rules import TEXTS

STATUSES = ("Approved", "Approved", "Rejected", "New")
SOURCES = ("import", "import", "import", "api", None)


class Mover(Actor):
    """Imports reviews into a store whose rules would hold some of them, restores their past, and decides on some.

    Messages to `moderation-commands` have the review's id as key, so they keep their order.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.own_ids: list[str] = []

    def actions(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        later = [(self.restore_again, 2), (self.decide, 2), (self.redeliver_some, 2)] if self.own_ids else []
        return [(self.import_reviews, 3), *later]

    async def import_reviews(self) -> None:
        """Publish reviews and their pasts, the latter at times first."""
        for _ in range(self.rng.randint(1, 5)):
            id, written = self.new_id("moved"), self.moment(0)
            text = f"{self.rng.choice(TEXTS)} {id}"
            review = self.review(id=id, storeId=IMPORT_STORE, review=text, source="import", writtenDate=written)
            pasts = [self.past(id) for _ in range(1 if self.world.is_mixed else self.rng.choice((1, 1, 2)))]
            is_early = self.rng.random() < 0.3
            for past in pasts if is_early else ():
                await self.publish("moderation-commands", id, past)
            await self.publish("review-submissions", f"Product:{review['EntityId']}", review)
            self.world.model.submit(id, review)
            self.world.model.pasts[id] = {"createdDate": written, "flags": [], "source": "import"}
            for past in () if is_early else pasts:
                await self.publish("moderation-commands", id, past)
            self.acknowledge(f"brought along {'behind' if is_early else 'before'} its past", id)
            for past in pasts:
                self.restore(id, past)
            self.own_ids.append(id)
        del self.own_ids[:-20]

    async def restore_again(self) -> None:
        await self.publish_past(self.rng.choice(self.own_ids))

    async def publish_past(self, id: str) -> None:
        """Publish one more past. It counts if it is newer than the previous one and nobody has decided since."""
        if self.world.is_mixed and id not in self.world.model.settled:
            return
        past = self.past(id)
        await self.publish("moderation-commands", id, past)
        self.restore(id, past)

    async def decide(self) -> None:
        """Make a decision here, which no later past undoes."""
        id, action = self.rng.choice(self.own_ids), self.rng.choice((*STATUS_AFTER, "delete"))
        command: Json = {"action": action, "ids": [id], "moderator": self.name, "commandId": self.new_id("command")}
        await self.publish("moderation-commands", id, command)
        outcome = self.world.model.moderate_imported(action, id, self.name, command["commandId"])
        self.acknowledge(f"{action} by Kafka: {outcome}", id)
        if action == "delete":
            self.own_ids.remove(id)
        await self.publish_past(id)

    def restore(self, id: str, past: Json) -> None:
        """Apply a past to the model."""
        outcome = self.world.model.restore(id, past)
        self.acknowledge(f"restored to {past['restored']}: {outcome}", id)

    def past(self, id: str) -> Json:
        rng, status = self.rng, self.rng.choice(STATUSES)
        return {
            "action": "restore",
            "ids": [id],
            "moderator": self.new_id("moderator"),
            "reason": self.new_id("reason"),
            **({"reasonCode": rng.choice(("spam", "off-topic"))} if status == "Rejected" else {}),
            "commandId": self.new_id("command"),
            "restored": {
                "status": status,
                "modifiedDate": self.moment(200),
                "flags": rng.choice([None, [], ["words"], ["links", "gone-rule"]]),
                "source": rng.choice(SOURCES),
                "language": rng.choice([None, "de", "en"]),
                "verifiedPurchase": rng.random() < 0.3,
            },
        }

    def moment(self, day: int) -> str:
        """A time within the 200 days that begin 400 - `day` days before `SHOP_OPENED`."""
        at = SHOP_OPENED - timedelta(days=400 - day) + timedelta(milliseconds=self.rng.randrange(200 * 86_400_000))
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def wrong_pasts(model: Model, shown: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Id and description of each imported review whose past differs from the model's."""
    actual = {id: {name: shown.get(id, {}).get(name) for name in past} for id, past in model.pasts.items()}
    return [(id, f"past {actual[id]}, expected {past}") for id, past in model.pasts.items() if actual[id] != past]
