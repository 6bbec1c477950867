"""The oracle: the state that the acknowledged commands must lead to.

It implements the rules of the contract a second time, as simply as possible, and imports nothing from the code under
test. Commands about one object are applied in the order in which their client received the acknowledgements; objects
are independent of each other.
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


@dataclass
class Order:
    """An order: quantities by order line, and its newest event."""

    lines: Mapping[str, int]
    newest: Json


@dataclass
class Return:
    """A return: its order, quantities by order line, status and resolution."""

    order: str
    lines: Mapping[str, int]
    status: str = "New"
    resolution: str | None = None

    def state(self) -> tuple[list[tuple[str, int]], str, str | None]:
        """The fields that decide whether an update changes the return."""
        return list(self.lines.items()), self.status, self.resolution

    def reserved(self) -> Mapping[str, int]:
        """Quantities by order line that no other return can have; none if the return is canceled."""
        return {} if self.status == "Canceled" else self.lines


@dataclass
class Model:
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
    early_moderation: dict[str, list[tuple[str, str | None, str | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Decisions on reviews that aren't submitted yet, by review id: action, expected status, text hash."""
    applied: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of times that an action changed a review's status or a return, by id and action."""
    closings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of decisions that left the status of a review and closed its reports, by id and action."""
    feedback: dict[str, Feedback] = field(default_factory=dict)
    """Feedback by review id."""
    orders: dict[str, Order] = field(default_factory=dict)
    returns: dict[str, Return] = field(default_factory=dict)
    return_requests: dict[str, Json] = field(default_factory=dict)
    """The requests that created returns, by return id; those of deleted returns are kept."""
    deleted_returns: set[str] = field(default_factory=set)
    return_ids: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Ids of existing returns by order id, in the order of their creation."""
    early_returns: dict[str, list[tuple[str, str, Json]]] = field(default_factory=lambda: defaultdict(list))
    """Commands on returns of unknown orders, by order id: action, return id, body."""
    waiting_returns: dict[str, str] = field(default_factory=dict)
    """Id of the order that a return waits for, by return id."""
    rushes: dict[str, tuple[int, list[str]]] = field(default_factory=dict)
    """Orders with competing returns: the ordered quantity, and the ids of the returns of one piece each."""
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

    def submit(self, id: str, body: Json) -> str:
        """Submit a review and apply the decisions that came before it. Only the first submission of an id counts."""
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
        """Replace title and author's name of a review, also rating and text unless the edit omits them, and set its
        status to New if `is_reset`."""
        review = self.reviews[id]
        if review.status is None:
            return "refused"
        review.rating, review.text = body.get("rating", review.rating), body.get("review", review.text)
        review.title, review.author_name = body["title"], body["userName"]
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

    def moderate(self, action: str, id: str, expected: str | None = None, text: str | None = None) -> str:
        """Moderate a review if it has the expected status and text hash (None: any). If it isn't submitted yet, keep
        the decision until it is."""
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
        return "unchanged" if review.status == before else self._applied(id, action)

    def close_reports(self, action: str, id: str) -> None:
        """Close the reports about a review by a decision that leaves its status."""
        self.closings[id, action] += self.feedback[id].reports > 0
        self.feedback[id].reports = 0

    def _applied(self, id: str, action: str) -> str:
        self.applied[id, action] += 1
        return "applied"

    def restore(self, id: str, command: Json) -> str:
        """Give an imported review its past, unless it has a newer one or this service has decided on it."""
        review, restored = self.reviews[id], command["restored"]
        if review.status is None:
            return "not-found"
        if id in self.settled or restored["modifiedDate"] <= self.pasts[id].get("modifiedDate", ""):
            return "unchanged"
        before, review.status = review.status, restored["status"]
        review.is_verified_by_import |= restored["verifiedPurchase"]
        decision = {"moderator": command["moderator"], "moderationReason": command["reason"]}
        decision["reasonCode"] = command.get("reasonCode")
        past = {name: restored[name] for name in ("modifiedDate", "source", "language")}
        flags = {} if restored["flags"] is None else {"flags": restored["flags"]}
        self.pasts[id] |= {**decision, **past, **flags}
        return "unchanged" if review.status == before else "applied"

    def moderate_imported(self, action: str, id: str, moderator: str) -> str:
        """Moderate an imported review. If that changes it, its past can no longer be restored."""
        outcome = self.moderate(action, id)
        if outcome == "applied":
            self.settled.add(id)
            self.pasts[id].pop("modifiedDate", None)
            self.pasts[id] |= {"moderator": moderator, "moderationReason": None, "reasonCode": None}
        if action == "delete":
            self.pasts.pop(id, None)
        return outcome

    def apply_order_event(self, event: Json) -> None:
        """Apply an order event. The newest one counts, in any order of arrival, with any number of repeats.

        The first event of an order also runs the commands on returns that waited for it, in their order.
        """
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
        """Create a return if its order has enough left. If the order is unknown, keep the command until it is known."""
        if id in self.deleted_returns:
            return "refused"
        if id in self.returns:
            return "unchanged" if wanted == self.return_requests[id] else "refused"
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
        self.return_requests[id] = wanted
        self.return_ids[order_id].append(id)
        return self._applied(id, "create")

    def change_return(self, id: str, changes: Json) -> str:
        """Change a return if its order has enough left. If the return still waits for its order, keep the command
        behind it."""
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
        available, own = self.available(known.order), known.reserved()
        if any(quantity > available.get(line, 0) + own.get(line, 0) for line, quantity in wanted.reserved().items()):
            return "refused"
        ordered = self.orders[known.order].lines
        if any(quantity > max(ordered.get(line, 0), known.lines.get(line, 0)) for line, quantity in lines.items()):
            return "refused"
        self.returns[id] = wanted
        return "unchanged" if wanted.state() == known.state() else self._applied(id, "update")

    def delete_return(self, id: str) -> str:
        """Delete a return for good. If it still waits for its order, keep the command behind it."""
        if id in self.waiting_returns:
            self.early_returns[self.waiting_returns[id]].append(("delete", id, {"id": id}))
            return "not-found"
        known = self.returns.pop(id, None)
        if known is None:
            return "not-found"
        self.return_ids[known.order].remove(id)
        self.deleted_returns.add(id)
        return self._applied(id, "delete")

    def rushed(self) -> Iterator[str]:
        """Ids of the competing returns."""
        return (id for _, ids in self.rushes.values() for id in ids)

    def images_of(self, review_id: str) -> list[str]:
        """Ids of the images of a review."""
        return [id for id, holder in self.images.items() if holder == review_id]

    def available(self, order_id: str) -> dict[str, int]:
        """Quantities of an order that can still be returned, by order line."""
        left = Counter(self.orders[order_id].lines)
        for id in self.return_ids[order_id]:
            left.subtract(self.returns[id].reserved())
        return dict(left)

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
