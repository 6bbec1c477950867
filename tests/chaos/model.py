"""The state that acknowledged commands must lead to: the rules of the contract once more, in the plainest form.

Nothing here is taken from the code under test. Commands about one object are applied in the order in which its
client had them acknowledged; objects don't depend on each other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.support.ratings import average, histogram

Json = dict[str, Any]

STATUS_AFTER = {"approve": "Approved", "reject": "Rejected", "reset": "New"}
CLOSED_STORE = "chaos-closed"
OPEN_STORE = "chaos-open"
ONE_EACH = "chaos-one-each"
RULED_STORE = "chaos-ruled"
MOVED_STORE = "chaos-moved"
MOST_MAILS = 2


@dataclass
class Review:
    """A review: what it says, and where it stands; no status: it was deleted."""

    entity: str
    store: str | None
    rating: float
    title: str | None
    status: str | None = "New"
    author: str | None = None
    author_name: str | None = None
    text: str = ""
    is_proven: bool = False
    """Verified for good, by purchases elsewhere."""

    @property
    def text_hash(self) -> str:
        """The name of its text, by which decisions say what they are about."""
        return sha256(f"{self.title or ''}\n{self.text}".encode()).hexdigest()


@dataclass
class Said:
    """What has been said of a review."""

    reply: str | None = None
    votes: dict[str, bool] = field(default_factory=dict)
    reports: int = 0

    def shown(self) -> tuple[str | None, int, int, int]:
        """Reply, helpful and other votes, and open reports."""
        votes = list(self.votes.values())
        return self.reply, votes.count(True), votes.count(False), self.reports


@dataclass
class Order:
    """An order: quantities by line, and its newest event."""

    lines: Mapping[str, int]
    newest: Json


@dataclass
class Return:
    """A return: its status, and quantities by order line."""

    order: str
    lines: Mapping[str, int]
    status: str = "New"
    resolution: str | None = None

    def told(self) -> tuple[list[tuple[str, int]], str, str | None]:
        return list(self.lines.items()), self.status, self.resolution

    def taken(self) -> Mapping[str, int]:
        return {} if self.status == "Canceled" else self.lines


@dataclass
class Model:
    """The expected state."""

    reviews: dict[str, Review] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    rivals: set[str] = field(default_factory=set)
    races: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the reviews of which a customer may have one, by object."""
    raced: set[str] = field(default_factory=set)
    """Those of them that were acknowledged."""
    flags: dict[str, list[str]] = field(default_factory=dict)
    """Those of reviews in the store with rules."""
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    """The first review with each text of an object there."""
    pasts: dict[str, Json] = field(default_factory=dict)
    """What a list shows of the past of each review that was brought along, by the names there."""
    settled: set[str] = field(default_factory=set)
    """Those of them whose past can't change any more."""
    early_moderation: dict[str, list[tuple[str, str | None, str | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    said: dict[str, Said] = field(default_factory=dict)
    """Replies, votes and reports, by the reviews that they are about."""
    orders: dict[str, Order] = field(default_factory=dict)
    returns: dict[str, Return] = field(default_factory=dict)
    asked_returns: dict[str, Json] = field(default_factory=dict)
    """The requests that created returns, also of deleted ones."""
    deleted_returns: set[str] = field(default_factory=set)
    returns_of: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    early_returns: dict[str, list[tuple[str, str, Json]]] = field(default_factory=lambda: defaultdict(list))
    """Commands about returns of unknown orders, by order: action, return, and what is wanted."""
    waiting_returns: dict[str, str] = field(default_factory=dict)
    """The orders that returns wait for, by the id of the return."""
    rushes: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    mails: Counter[str] = field(default_factory=Counter)
    images: dict[str, str | None] = field(default_factory=dict)
    """The review of each image; None: it is unused."""
    gone: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    poison: Counter[str] = field(default_factory=Counter)
    unreadable: dict[tuple[str, int, int], str] = field(default_factory=dict)
    """The kind of each record that no client can use, by full topic, partition and offset."""
    unacknowledged: set[tuple[str, int]] = field(default_factory=set)
    """Partitions that may hold more of them, for they weren't acknowledged."""

    def submit(self, id: str, body: Json) -> str:
        """Submit a review; the first one at an id counts. Returns the outcome."""
        if id in self.reviews or id in self.refused:
            return "unchanged"
        if body.get("storeId") == CLOSED_STORE:
            self.refused.add(id)
            return "refused"
        place = body["EntityId"], body.get("storeId")
        review = Review(*place, body["rating"], body.get("title"), author=body.get("userId"))
        review.author_name, review.text = body.get("userName"), body["review"]
        self.reviews[id] = review
        for action, expected, text in self.early_moderation.pop(id, ()):
            self.moderate(action, id, expected, text)
        return "applied"

    def edit(self, id: str, body: Json, *, is_reset: bool) -> str:
        """Edit a review; its status is New then if `is_reset`. Returns the outcome."""
        review = self.reviews[id]
        if review.status is None:
            return "refused"
        review.rating, review.title, review.text = body["rating"], body["title"], body["review"]
        review.author_name = body["userName"]
        if is_reset:
            review.status = "New"
        return "applied"

    def submit_as_another(self, id: str) -> None:
        """Submit a review with an id of somebody else's, behind it: that is told, and changes nothing."""
        self.rivals.add(id)

    def may_be_taken(self, id: str) -> bool:
        """True if a client may have been told that an id is taken: as a rival, or after the review was deleted."""
        return id in self.rivals or (id in self.reviews and self.reviews[id].status is None)

    def moderate(self, action: str, id: str, expected: str | None = None, text: str | None = None) -> str:
        """Moderate a review that is in the expected status and has the text with this hash, or keep that until it is
        submitted. Returns the outcome."""
        review = self.reviews.get(id)
        if review is None:
            if id not in self.refused:
                self.early_moderation[id].append((action, expected, text))
            return "not-found"
        if review.status is None:
            return "not-found"
        if expected not in (None, review.status) or text not in (None, review.text_hash):
            return "refused"
        before, review.status = review.status, STATUS_AFTER.get(action)
        return "unchanged" if review.status == before else "applied"

    def restore(self, id: str, command: Json) -> str:
        """Give a review that was brought along its past, unless it has a newer one, or is settled. Returns the
        outcome."""
        review, restored = self.reviews[id], command["restored"]
        if review.status is None:
            return "not-found"
        if id in self.settled or restored["modifiedDate"] <= self.pasts[id].get("modifiedDate", ""):
            return "unchanged"
        before, review.status = review.status, restored["status"]
        review.is_proven |= restored["verifiedPurchase"]
        told = {"moderator": command["moderator"], "moderationReason": command["reason"]}
        told["reasonCode"] = command.get("reasonCode")
        past = {name: restored[name] for name in ("modifiedDate", "source", "language")}
        flags = {} if restored["flags"] is None else {"flags": restored["flags"]}
        self.pasts[id] |= {**told, **past, **flags}
        return "unchanged" if review.status == before else "applied"

    def decide_moved(self, action: str, id: str, moderator: str) -> str:
        """Decide about a review that was brought along: one that changes by it is restored no more."""
        outcome = self.moderate(action, id)
        if outcome == "applied":
            self.settled.add(id)
            self.pasts[id].pop("modifiedDate", None)
            self.pasts[id] |= {"moderator": moderator, "moderationReason": None, "reasonCode": None}
        if action == "delete":
            self.pasts.pop(id, None)
        return outcome

    def tell_order(self, event: Json) -> None:
        """An order event, in any order, any number of times: the newest counts."""
        known = self.orders.get(event["id"])
        if known is None:
            self.orders[event["id"]] = Order({item["id"]: item["quantity"] for item in event["items"]}, event)
            for action, id, wanted in self.early_returns.pop(event["id"], ()):
                self.waiting_returns.pop(id, None)
                match action:
                    case "create":
                        self.create_return(id, wanted)
                    case "update":
                        self.change_return(id, wanted)
                    case "delete":
                        self.delete_return(id)
        elif event["modifiedDate"] > known.newest["modifiedDate"]:
            known.newest = event

    def create_return(self, id: str, wanted: Json) -> str:
        """Create a return, or keep that until its order is known. Returns the outcome."""
        if id in self.deleted_returns:
            return "refused"
        if id in self.returns:
            return "unchanged" if wanted == self.asked_returns[id] else "refused"
        order_id = wanted["orderId"]
        if order_id not in self.orders:
            self.early_returns[order_id].append(("create", id, wanted))
            self.waiting_returns[id] = order_id
            return "not-found"
        lines = quantities(wanted["lineItems"])
        available = self.available(order_id)
        if any(quantity > available.get(line, 0) for line, quantity in lines.items()):
            return "refused"
        self.returns[id] = Return(order_id, lines, wanted.get("status", "New"), wanted.get("resolution"))
        self.asked_returns[id] = wanted
        self.returns_of[order_id].append(id)
        return "applied"

    def change_return(self, id: str, changes: Json) -> str:
        """Change a return, or keep that behind one that waits for its order. Returns the outcome."""
        if id in self.waiting_returns:
            self.early_returns[self.waiting_returns[id]].append(("update", id, changes))
            return "not-found"
        known = self.returns.get(id)
        if known is None:
            return "refused"
        lines = quantities(changes["lineItems"]) if "lineItems" in changes else known.lines
        wanted = Return(
            known.order, lines, changes.get("status", known.status), changes.get("resolution", known.resolution)
        )
        available, own = self.available(known.order), known.taken()
        if any(quantity > available.get(line, 0) + own.get(line, 0) for line, quantity in wanted.taken().items()):
            return "refused"
        ordered = self.orders[known.order].lines
        if any(quantity > max(ordered.get(line, 0), known.lines.get(line, 0)) for line, quantity in lines.items()):
            return "refused"
        self.returns[id] = wanted
        return "unchanged" if wanted.told() == known.told() else "applied"

    def delete_return(self, id: str) -> str:
        """Delete a return for good, or keep that behind one that waits for its order. Returns the outcome."""
        if id in self.waiting_returns:
            self.early_returns[self.waiting_returns[id]].append(("delete", id, {"id": id}))
            return "not-found"
        known = self.returns.pop(id, None)
        if known is None:
            return "not-found"
        self.returns_of[known.order].remove(id)
        self.deleted_returns.add(id)
        return "applied"

    def images_of(self, review_id: str) -> list[str]:
        """The images of a review."""
        return [id for id, holder in self.images.items() if holder == review_id]

    def available(self, order_id: str) -> dict[str, int]:
        """Quantities of an order that can still be returned, by line."""
        left = Counter(self.orders[order_id].lines)
        for id in self.returns_of[order_id]:
            left.subtract(self.returns[id].taken())
        return dict(left)

    def ratings(self) -> dict[tuple[str, str | None], tuple[int, float, dict[str, int]]]:
        """Count, mean and histogram of the approved reviews, by object and store; the mean has two decimals, halves
        up."""
        rated: dict[tuple[str, str | None], list[float]] = defaultdict(list)
        for review in self.reviews.values():
            if review.status == "Approved":
                rated[review.entity, review.store].append(review.rating)
        return {key: (len(ratings), average(ratings), histogram(ratings)) for key, ratings in rated.items()}

    def purchases(self) -> set[tuple[str | None, str | None, str]]:
        """The store, customer and product of each purchase, by orders as they now are."""
        return {
            (event.get("storeId"), event.get("customerId"), item["productId"])
            for event in (order.newest for order in self.orders.values())
            if event["status"] != "Cancelled"
            for item in event["items"]
        }

    def counts(self) -> dict[str, int]:
        """The number of objects of each kind."""
        kinds = ("reviews", "races", "orders", "returns", "rushes", "mails", "images", "pasts", "poison", "unreadable")
        return {"customers" if kind == "mails" else kind: len(getattr(self, kind)) for kind in kinds}

    def living(self) -> Iterator[tuple[str, Review]]:
        """The reviews that are in the list."""
        return ((id, review) for id, review in self.reviews.items() if review.status is not None)


def quantities(line_items: Sequence[Json]) -> dict[str, int]:
    """Quantities by order line."""
    taken: Counter[str] = Counter()
    for item in line_items:
        taken[item["orderLineItemId"]] += item["quantity"]
    return dict(taken)
