"""The oracle: the state that the acknowledged commands must lead to.

It implements the rules of the contract a second time, as simply as possible, and imports nothing from the code under
test. Commands about one object are applied in the order in which their client received the acknowledgements; objects
are independent of each other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

from tests.chaos.model_returns import Json as Json
from tests.chaos.model_returns import OrdersAndReturns
from tests.chaos.outcomes import APPLIED, ID_TAKEN, NOT_FOUND, UNCHANGED, Outcome
from tests.support.ratings import average, histogram

STATUS_AFTER = {"approve": "Approved", "reject": "Rejected", "reset": "New"}
CLOSED_STORE = "chaos-closed"
"""A store that accepts no reviews."""

OPEN_STORE = "chaos-open"
"""A store that accepts every review; an author's edit keeps the status."""

ONE_EACH_STORE = "chaos-one-each"
"""A store that accepts one review per customer and object."""

RULED_STORE = "chaos-ruled"
"""A store with moderation rules."""

IMPORT_STORE = "chaos-moved"
"""A store with moderation rules whose reviews are imported with their past."""

MAX_MAILS = 2
"""Maximum number of reminder mails to one customer."""


@dataclass
class Review:
    """A submitted review. Its status is None once it is deleted."""

    entity: str
    store: str | None
    rating: float
    title: str | None
    status: str | None = "New"
    author: str | None = None
    author_name: str | None = None
    text: str = ""
    is_verified_by_import: bool = False
    """True if an import stated a verified purchase; orders can't take that back."""

    @property
    def text_hash(self) -> str:
        """SHA-256 of title and text, in hex. A decision with this hash applies only to this text."""
        return sha256(f"{self.title or ''}\n{self.text}".encode()).hexdigest()


@dataclass
class Feedback:
    """Feedback on one review."""

    reply: str | None = None
    votes: dict[str, bool] = field(default_factory=dict)
    """Each voter's vote: True means helpful."""
    reports: int = 0
    """Number of open reports."""

    def shown(self) -> tuple[str | None, int, int, int]:
        """Reply, helpful votes, other votes and open reports, as the API shows them."""
        votes = list(self.votes.values())
        return self.reply, votes.count(True), votes.count(False), self.reports


class Decision(NamedTuple):
    """A decision on a review: expected status and text hash (None: any), and the id of its command if it has one."""

    action: str
    expected: str | None = None
    text: str | None = None
    command: str | None = None


@dataclass
class Model(OrdersAndReturns):
    """The expected state. Methods that apply a command return the outcome that the API must report."""

    reviews: dict[str, Review] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    """Ids of reviews that a closed store refused."""
    rivals: set[str] = field(default_factory=set)
    """Ids for which another author submitted a review, too: an `id-taken` refusal is expected."""
    races: dict[str, list[str]] = field(default_factory=dict)
    """Ids of competing reviews by object. Each object has one customer, who may have one review, so exactly one is
    stored."""
    raced: set[str] = field(default_factory=set)
    """Ids in `races` whose submission was acknowledged."""
    flags: dict[str, list[str]] = field(default_factory=dict)
    """Expected flags of each review in the store with moderation rules."""
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    """Id of the first review with a text, by object and normalized text, in the store with moderation rules."""
    pasts: dict[str, Json] = field(default_factory=dict)
    """Expected fields of each imported review, by their names in the API's list."""
    settled: set[str] = field(default_factory=set)
    """Ids of imported reviews on which this service has decided: a restored past no longer changes them."""
    early_moderation: dict[str, list[Decision]] = field(default_factory=lambda: defaultdict(list))
    """Decisions on reviews that aren't submitted yet, by review id."""
    edited: set[str] = field(default_factory=set)
    """Ids of reviews that an edit changed."""
    closings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of decisions that left the status of a review, and closed its reports or ended its planned approval, by id
    and action."""
    feedback: dict[str, Feedback] = field(default_factory=dict)
    """Feedback by review id."""
    mails: Counter[str] = field(default_factory=Counter)
    """Expected number of mails by customer."""
    images: dict[str, str | None] = field(default_factory=dict)
    """Id of the review of each image; None if no review uses it."""
    deleted_images: set[str] = field(default_factory=set)
    """Ids of images that must have been deleted, with their review or by an edit."""
    hidden_images: set[str] = field(default_factory=set)
    """Ids of hidden images."""
    poison: Counter[str] = field(default_factory=Counter)
    """Published values that aren't JSON; each must become a dead letter."""
    unreadable: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """Kind of each bad record that a fault wrote, by full topic name, partition and offset; each must become a dead
    letter."""
    unacknowledged: set[tuple[str, int]] = field(default_factory=set)
    """Full topic name and partition of bad records that Kafka didn't acknowledge: each may exist, at an unknown
    offset."""

    def submit(self, id: str, body: Json, command: str | None = None) -> str:
        """Submit a review and apply the decisions that came before it. Only the first submission of an id counts.
        `command`: the id of its command, if it has one."""
        if id in self.reviews or id in self.refused:
            return "unchanged"
        if body.get("storeId") == CLOSED_STORE:
            self.refused.add(id)
            return "refused"
        place = body["EntityId"], body.get("storeId")
        review = Review(*place, body["rating"], body.get("title"), author=body.get("userId"))
        review.author_name, review.text = body.get("userName"), body["review"]
        self.reviews[id] = review
        self.outcomes.expect(command, id, APPLIED)
        for decision in self.early_moderation.pop(id, ()):
            self.moderate(decision.action, id, decision.expected, decision.text, decision.command)
        return "applied"

    def edit(self, id: str, body: Json, *, is_reset: bool, command: str | None = None) -> str:
        """Replace title and author's name of a review, also rating and text unless the edit omits them, and set its
        status to New if `is_reset`."""
        review = self.reviews[id]
        if command:
            self.outcomes.expect(command, id, APPLIED)
            self.outcomes.if_gone[command, id] = ID_TAKEN
        self.sent[id, "edit"] += 1
        if review.status is None:
            return "refused"
        before = replace(review)
        review.rating, review.text = body.get("rating", review.rating), body.get("review", review.text)
        review.title, review.author_name = body["title"], body["userName"]
        if review != before:
            self.edited.add(id)
        if is_reset:
            review.status = "New"
        return "applied"

    def submit_by_rival(self, id: str) -> None:
        """Submit a review by another author with an id in use, after its owner's: it must be refused and change
        nothing."""
        self.rivals.add(id)

    def may_be_taken(self, id: str) -> bool:
        """True if an `id-taken` refusal of this id is allowed: another author submitted it, too, or its review was
        deleted."""
        return id in self.rivals or (id in self.reviews and self.reviews[id].status is None)

    def moderate(
        self, action: str, id: str, expected: str | None = None, text: str | None = None, command: str | None = None
    ) -> str:
        """Moderate a review if it has the expected status and text hash (None: any). If it isn't submitted yet, keep
        the decision until it is. `command`: the id of its command, if it has one."""
        review = self.reviews.get(id)
        if review is None and id not in self.refused:
            self.early_moderation[id].append(Decision(action, expected, text, command))
            self.outcomes.wait(command, id)
            return "not-found"
        if review is None or review.status is None:
            outcome = NOT_FOUND
        elif expected not in (None, review.status):
            outcome = Outcome("refused", "status-changed")
        elif text not in (None, review.text_hash):
            outcome = Outcome("refused", "text-changed")
        else:
            before, review.status = review.status, None if action == "delete" else STATUS_AFTER[action]
            outcome = UNCHANGED if review.status == before else APPLIED
        if outcome == APPLIED:
            self.applied[id, action] += 1
        self.outcomes.expect(command, id, outcome)
        return outcome.outcome

    def close_reports(self, action: str, id: str, command: str | None = None) -> None:
        """Close the reports about a review by a decision that leaves its status."""
        self.outcomes.expect(command, id, UNCHANGED)
        self.closings[id, action] += self.feedback[id].reports > 0
        self.feedback[id].reports = 0

    def restore(self, id: str, command: Json) -> str:
        """Give an imported review its past, unless it has a newer one or this service has decided on it."""
        review, restored, command_id = self.reviews[id], command["restored"], command["commandId"]
        if review.status is None:
            self.outcomes.expect(command_id, id, NOT_FOUND)
            return "not-found"
        if id in self.settled or restored["modifiedDate"] <= self.pasts[id].get("modifiedDate", ""):
            self.outcomes.expect(command_id, id, UNCHANGED)
            return "unchanged"
        is_first = "modifiedDate" not in self.pasts[id]
        before, review.status = review.status, restored["status"]
        review.is_verified_by_import |= restored["verifiedPurchase"]
        decision = {"moderator": command["moderator"], "moderationReason": command["reason"]}
        decision["reasonCode"] = command.get("reasonCode")
        past = {name: restored[name] for name in ("modifiedDate", "source", "language")}
        flags = {} if restored["flags"] is None else {"flags": restored["flags"]}
        self.pasts[id] |= {**decision, **past, **flags}
        outcome = UNCHANGED if review.status == before else APPLIED
        self.outcomes.expect(command_id, id, outcome)
        if is_first:
            # The rules of its store may have approved it before.
            self.outcomes.either[command_id, id] = APPLIED if outcome == UNCHANGED else UNCHANGED
        return outcome.outcome

    def moderate_imported(self, action: str, id: str, moderator: str, command: str) -> str:
        """Moderate an imported review. If that changes it, its past can no longer be restored."""
        outcome = self.moderate(action, id, command=command)
        if outcome == "applied":
            self.settled.add(id)
            self.pasts[id].pop("modifiedDate", None)
            self.pasts[id] |= {"moderator": moderator, "moderationReason": None, "reasonCode": None}
        if action == "delete":
            self.pasts.pop(id, None)
        return outcome

    def images_of(self, review_id: str) -> list[str]:
        """Ids of the images of a review."""
        return [id for id, holder in self.images.items() if holder == review_id]

    def ratings(self) -> dict[tuple[str, str | None], tuple[int, float, dict[str, int]]]:
        """Count, average and histogram of the approved reviews, by object and store. The average has two decimals,
        rounded half up."""
        rated: dict[tuple[str, str | None], list[float]] = defaultdict(list)
        for review in self.reviews.values():
            if review.status == "Approved":
                rated[review.entity, review.store].append(review.rating)
        return {key: (len(ratings), average(ratings), histogram(ratings)) for key, ratings in rated.items()}

    def purchases(self) -> set[tuple[str | None, str | None, str]]:
        """Store, customer and product of each purchase, by the newest event of each order that isn't cancelled."""
        return {
            (event.get("storeId"), event.get("customerId"), item["productId"])
            for event in (order.newest for order in self.orders.values())
            if event["status"] != "Cancelled"
            for item in event["items"]
        }

    def counts(self) -> dict[str, int]:
        """Number of objects of each kind."""
        kinds = ("reviews", "races", "orders", "returns", "rushes", "mails", "images", "pasts", "poison", "unreadable")
        counts = {"customers" if kind == "mails" else kind: len(getattr(self, kind)) for kind in kinds}
        return counts | {"outcomes": len(self.outcomes.expected)}

    def living(self) -> Iterator[tuple[str, Review]]:
        """The reviews that are in the list."""
        return ((id, review) for id, review in self.reviews.items() if review.status is not None)
