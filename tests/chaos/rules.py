"""Reviews in a store with moderation rules: what comes of them is told by the pure rules, asked independently."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any

from domain.moderation_rules import JudgedReview, RuleOutcome, RuleSet
from messaging.moderation_rules import MODERATION_RULES
from tests.chaos.generator import REVIEWS, Actor, World
from tests.chaos.model import RULED_STORE, Json, Model

RULES: list[Json] = [
    {"id": "words", "kind": "words", "outcome": "hold", "words": ["scam", "buy now"]},
    {"id": "links", "kind": "links", "outcome": "flag"},
    {"id": "contact", "kind": "contact", "outcome": "flag"},
    {"id": "twice", "kind": "duplicate", "outcome": "flag"},
    {"id": "low", "kind": "stars", "outcome": "hold", "below": 2, "publishAfterHours": 336},
    {"id": "good", "kind": "stars", "outcome": "approve", "above": 3},
]
TEXTS = ("Sharp pictures.", "A scam!", "See www.example.com", "Buy  NOW, at shop.org", "Call +49 170 1234567", "Fair.")
_SET = RuleSet([each.rule() for each in MODERATION_RULES.validate_python(RULES, strict=False)])


class Ruled(Actor):
    """Submits reviews to a store with rules, edits them as their authors, and has a classifier judge them.

    One review is either edited or judged by the classifier, and only texts that stay are shared, so that the order of
    what happens is known: a batch stores what is new before it edits.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self.edited: list[Json] = []
        self.judged: list[Json] = []

    def deeds(self) -> Sequence[tuple[Callable[[], Awaitable[None]], int]]:
        more = [(self.edit, 2)] if self.edited else []
        more += [(self.classify, 2)] if self.judged else []
        return [(self.submit, 4), (self.repeat_some, 1), *more]

    def text(self) -> str:
        """A text that no other review has."""
        return f"{self.chance.choice(TEXTS)} {self.new_id('text')}"

    async def submit(self) -> None:
        for _ in range(self.chance.randint(1, 10)):
            id = self.new_id("ruled")
            entity = f"{self.name}-ruled{self.chance.randint(1, 10)}"
            is_shared = self.chance.random() < 0.2
            text = self.chance.choice(TEXTS) if is_shared else self.text()
            about = {"storeId": RULED_STORE, "EntityId": entity, "userId": id, "review": text}
            review = self.review(id=id, **about)
            await self.tell("review-submissions", f"Product:{entity}", review)
            self.world.model.submit(id, review)
            self.apply(review)
            (self.judged if is_shared or self.chance.random() < 0.5 else self.edited).append(review)

    async def edit(self) -> None:
        review = {**self.chance.choice(self.edited), "review": self.text(), "title": self.new_id("edit")}
        review["rating"] = self.chance.randint(100, 500) / 100
        await self.tell("review-submissions", f"Product:{review['EntityId']}", review)
        self.world.model.edit(review["id"], review, is_reset=True)
        self.apply(review)

    async def classify(self) -> None:
        """A verdict, at times about another text. It may come before its review."""
        review = self.judged.pop(self.chance.randrange(len(self.judged)))
        told = review if self.chance.random() < 0.8 else {**review, "review": "Another text"}
        outcome = self.chance.choice([each.value for each in RuleOutcome])
        digest = sha256(f"{told['title']}\n{told['review']}".encode()).hexdigest()
        verdict = {"reviewId": review["id"], "textHash": digest, "source": "ai", "verdict": outcome}
        await self.tell("moderation-verdicts", review["id"], verdict)
        self.world.ledger.acknowledge(f"verdict {outcome} about {told['review']}", review["id"])
        if told is not review:
            return
        known, flags = self.world.model.reviews[review["id"]], self.world.model.flags[review["id"]]
        if outcome != "approve":
            flags.append("verdict:ai")
        elif known.status == "New" and not {"words", "low"} & set(flags):
            known.status = "Approved"

    def apply(self, review: Json) -> None:
        """Tell the model what the rules make of a review."""
        model: Model = self.world.model
        place = review["EntityId"], " ".join(review["review"].casefold().split())
        is_second = model.texts.setdefault(place, review["id"]) != review["id"]
        about = review["title"], review["review"], round(review["rating"] * 100)
        ruling = _SET.judge(JudgedReview(*about, is_duplicate=is_second))
        model.reviews[review["id"]].status = ruling.status.label
        model.flags[review["id"]] = list(ruling.flags)
        self.world.ledger.acknowledge(f"{review['review']}, {review['rating']}: {ruling.flags}", review["id"])


def wrong_flags(model: Model, shown: dict[str, list[Any]]) -> list[tuple[str, str]]:
    """The reviews whose flags differ from those that the model expects, with what they are."""
    return [
        (id, f"flags {shown.get(id)}, expected {flags}") for id, flags in model.flags.items() if shown.get(id) != flags
    ]


SEARCH = f"{REVIEWS}/search"
