"""Compares what the service shows with what the model expects.

It reads the HTTP API, the published topics and the schedulers' logs; in the database the stored reviews (for the topic
of reviews), the audit log, and what must not be left behind.
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tests.chaos.clients import Http, Ledger
from tests.chaos.exactly_once import Change, announced, logged, wrong_entries, wrong_events
from tests.chaos.feedback import shown_in
from tests.chaos.fleet import TOPICS, Fleet
from tests.chaos.generator import RETURNS, REVIEWS
from tests.chaos.images import wrong_images
from tests.chaos.leftovers import leftovers
from tests.chaos.model import IMPORT_STORE, ONE_EACH_STORE, RULED_STORE, Feedback, Json, Model
from tests.chaos.record_kinds import expected_codes
from tests.chaos.restored import wrong_pasts
from tests.chaos.rules import SEARCH, wrong_flags
from tests.support.ratings import histogram
from tests.support.reviews_topic import latest, stored
from tests.support.service import kind_of

Place = tuple[str, int, int]
"""Full topic name, partition and offset of a record."""
Kind = Literal["lost", "duplicated", "wrong", "relayed"]
"""Kind of a difference; "relayed" means that the topic of reviews differs from the database."""

Rows = Mapping[str, str]
"""Reviews and returns as the API shows them, as JSON by id."""

PAGE = 1_000
"""Rows per request of a search."""

_NO_RATING = (0, 0.0, None)
UNREADABLE_CODES = ("undecodable", "too-large")
"""Error codes of records that no client can decode or that are too large."""

REVIEW_NOT_FOUND = "review-not-found"
"""Error code of a command whose review wasn't submitted within an hour."""

INVALID_JSON = "invalid-json"
"""Error code of poison."""

CLOSED, TAKEN, SECOND = REFUSALS = ("reviews-disabled", "id-taken", "duplicate-review")
"""Reasons of `SubmissionRefused` events."""

REVIEW_EVENTS = ("ReviewSubmitted", "ReviewApproved", "ReviewRejected", "ReviewDeleted")
RETURN_EVENTS = ("ReturnCreated", "ReturnDeleted")
TIMEOUT_S = 90.0
"""Seconds that a difference may last. A dead process is replaced within 20 s, on a busy machine later."""


class Difference(NamedTuple):
    """A mismatch between the service and the model."""

    kind: Kind
    id: str
    what: str


@dataclass(frozen=True)
class Checker:
    """Compares every kind of object."""

    http: Http
    fleet: Fleet
    model: Model
    series: str

    async def differences(self) -> list[Difference]:
        """Wait until all published records are consumed, then compare until nothing differs or `TIMEOUT_S` is over.

        Returns the differences of the last comparison, and topics that are still not consumed.
        """
        loop = asyncio.get_running_loop()
        unconsumed = await self.unconsumed()
        end = loop.time() + TIMEOUT_S
        while True:
            found = [*await self.compare_reviews(), *await self.compare_ratings(), *await self.compare_returns()]
            found += [
                *await self.compare_mails(),
                *await self.compare_dead_letters(),
                *await self.compare_events(),
                *await self.compare_audit(),
                *self.check_single_scheduler(),
            ]
            found += [
                *await self.compare_reviews_topic(),
                *await self.compare_flags(),
                *await self.compare_pasts(),
                *await self.compare_status_lists(),
            ]
            found += [*await self.compare_storefront_ratings(), *await self.compare_leftovers()]
            found += [Difference("wrong", *each) for each in await wrong_images(self.http, self.model)]
            if not found or loop.time() > end:
                return [*unconsumed, *found]
            await asyncio.sleep(2)  # effects may still be on their way
            # Consumed records may have led to further records.
            unconsumed = await self.unconsumed(TIMEOUT_S)

    async def unconsumed(self, timeout_s: float = 4 * TIMEOUT_S) -> list[Difference]:
        """Wait until all records are consumed, at most `timeout_s`. Returns a difference for each topic that isn't."""
        end, found = asyncio.get_running_loop().time() + timeout_s, list[Difference]()
        for topic in (*TOPICS, "review-changes"):
            while lag := await self.fleet.service.lag(topic):
                if asyncio.get_running_loop().time() > end:
                    found.append(Difference("lost", topic, f"{lag} records not consumed"))
                    break
                await asyncio.sleep(0.2)  # polling interval
        return found

    async def compare_reviews(self) -> list[Difference]:
        """The list of reviews has each living review once with the expected fields, one of each race, and no others."""
        shown = {row["id"]: row async for row in self.pages(f"{REVIEWS}/search", sort="createdDate:asc")}
        found, purchases = [], self.model.purchases()
        for id, review in self.model.living():
            row = shown.pop(id, None)
            is_verified = review.is_verified_by_import or (review.store, review.author, review.entity) in purchases
            expected = (
                *(review.entity, review.store, review.author, review.author_name),
                *(review.rating, review.title, review.text, review.status, is_verified),
            )
            if row is None:
                found.append(Difference("lost", id, f"review not in the list, expected {review}"))
                continue
            names = (
                *("entityId", "storeName", "userId", "userName"),
                *("rating", "title", "review", "reviewStatus", "verifiedPurchase"),
            )
            if (actual := tuple(row[name] for name in names)) != expected:
                found.append(Difference("wrong", id, f"review {actual}, expected {expected}"))
            feedback = self.model.feedback.get(id, Feedback()).shown()
            if shown_in(row) != feedback:
                found.append(Difference("wrong", id, f"feedback {shown_in(row)}, expected {feedback}"))
        for entity, ids in self.model.races.items():
            if (count := sum(shown.pop(id, None) is not None for id in ids)) != 1:
                found.append(
                    Difference(
                        "duplicated" if count else "lost", entity, f"{count} of the competing reviews of one customer"
                    )
                )
        return found + [Difference("duplicated", id, f"unexpected review: {row}") for id, row in shown.items()]

    async def compare_flags(self) -> list[Difference]:
        """Reviews in the store with moderation rules have the flags that its rules and verdicts give them."""
        shown = {
            row["id"]: row["flags"] async for row in self.pages(SEARCH, storeId=RULED_STORE, sort="createdDate:asc")
        }
        return [Difference("wrong", id, what) for id, what in wrong_flags(self.model, shown)]

    async def compare_status_lists(self) -> list[Difference]:
        """The lists of New and of Rejected reviews have exactly the expected ones. Competing reviews are left out."""
        found, raced = [], {id for ids in self.model.races.values() for id in ids}
        for status in ("New", "Rejected"):
            pages = self.pages(SEARCH, reviewStatus=[status], sort="createdDate:asc")
            shown = {row["id"] async for row in pages} - raced
            expected = {id for id, review in self.model.living() if review.status == status}
            found += [Difference("lost", id, f"not in the list of {status}") for id in expected - shown]
            found += [Difference("wrong", id, f"in the list of {status}") for id in shown - expected]
        return found

    async def compare_pasts(self) -> list[Difference]:
        """Imported reviews have the past they came with, or what was decided here."""
        shown = {row["id"]: row async for row in self.pages(SEARCH, storeId=IMPORT_STORE, sort="createdDate:asc")}
        return [Difference("wrong", id, what) for id, what in wrong_pasts(self.model, shown)]

    async def compare_ratings(self) -> list[Difference]:
        """The API shows the expected count, average and histogram of each object and store."""
        expected = self.model.ratings()
        entities = sorted({review.entity for review in self.model.reviews.values()})
        shown: dict[tuple[str, str | None], Json] = {}
        for part in parts(entities, 200):
            wanted = {"entityIds": part, "entityType": "Product", "histogram": True}
            answer = await self.http.send("POST", "/api/rating/entityRating", wanted)
            shown |= {(rating["entityId"], rating["storeId"]): rating for rating in answer.body}
        found = []
        for key in expected.keys() | shown.keys():
            wanted_rating = expected.get(key, _NO_RATING)
            rating = shown.get(key)
            actual = (rating["reviewCount"], rating["value"], rating["histogram"]) if rating else _NO_RATING
            if actual != wanted_rating:
                found.append(Difference("wrong", key[0], f"rating of {key}: {actual}, expected {wanted_rating}"))
        return found

    async def compare_storefront_ratings(self) -> list[Difference]:
        """The storefront shows the expected ratings of each store."""
        entities: dict[str, list[str]] = defaultdict(list)
        expected = self.model.ratings()
        for entity, store in expected:
            if store is not None:
                entities[store].append(entity)
        found = []
        for store, ids in entities.items():
            for part in parts(ids, 100):
                path = f"/storefront/v1/{store}/summaries?entityType=Product&ids={','.join(part)}"
                answer = await self.http.send("GET", path)
                for entity in part:
                    row = answer.body[entity]
                    actual = row["reviewCount"], row["average"], row["histogram"]
                    if actual != expected[entity, store]:
                        what = f"summary {actual}, expected {expected[entity, store]}"
                        found.append(Difference("wrong", entity, what))
        return found

    async def compare_returns(self) -> list[Difference]:
        """Each return is there with the expected fields and a number of its own, no others are, and each order has the
        expected quantities left.

        Of competing returns of one order, exactly as many must be granted as the order has pieces.
        """
        found: list[Difference] = []
        shown = {row["id"]: row async for row in self.pages(f"{RETURNS}/search")}
        numbers = Counter(row["number"] for row in shown.values())
        found += [Difference("wrong", n, f"{c} returns have the number {n}") for n, c in numbers.items() if c > 1]
        rushed: dict[str, list[str]] = defaultdict(list)
        for order, (_, ids) in self.model.rushes.items():
            rushed[order] = [id for id in ids if shown.pop(id, None)]
        for id, wanted in self.model.returns.items():
            row = shown.pop(id, None)
            if row is None:
                found.append(Difference("lost", id, f"return is missing, expected {wanted}"))
                continue
            lines = {line["orderLineItemId"]: line["quantity"] for line in row["lineItems"]}
            newest = self.model.orders[wanted.order].newest
            actual = row["orderId"], lines, row["status"], row["resolution"], row["order"]["note"]
            expected = wanted.order, dict(wanted.lines), wanted.status, wanted.resolution, newest["note"]
            if actual != expected:
                found.append(Difference("wrong", id, f"return {actual}, expected {expected}"))
        found += [Difference("duplicated", id, f"unexpected return: {row}") for id, row in shown.items()]
        available = await self.available(list(self.model.orders))
        for order, quantities in available.items():
            expected_quantities = self.model.available(order)
            if order in self.model.rushes:
                quantity, ids = self.model.rushes[order]
                granted = min(quantity, len(ids))
                expected_quantities = {"line0": quantity - granted}
                if len(rushed[order]) != granted:
                    kind: Kind = "lost" if len(rushed[order]) < granted else "duplicated"
                    found.append(Difference(kind, order, f"{len(rushed[order])} returns granted, expected {granted}"))
            if quantities != expected_quantities:
                what = f"available {quantities}, expected {expected_quantities}"
                found.append(Difference("lost" if quantities is None else "wrong", order, what))
        return found

    async def available(self, orders: Sequence[str]) -> dict[str, dict[str, int] | None]:
        """Quantities that can still be returned, by order and line; None if the order isn't found."""
        shown: dict[str, dict[str, int] | None] = {}

        async def ask(order: str) -> None:
            answer = await self.http.send("GET", f"{RETURNS}/available-quantities/{order}")
            shown[order] = answer.body if answer.status == 200 else None

        for part in parts(orders, 8):
            await asyncio.gather(*map(ask, part))
        return shown

    async def compare_mails(self) -> list[Difference]:
        """Each customer was sent the expected number of mails, counted by distinct ids."""
        ids: dict[str, set[str]] = defaultdict(set)
        for mail in await self.fleet.service.values("mail-commands"):
            ids[mail["customerId"]].add(mail["id"])
        found = []
        for customer in ids.keys() | self.model.mails.keys():
            sent, expected = len(ids[customer]), self.model.mails[customer]
            if sent != expected:
                kind: Kind = "lost" if sent < expected else "duplicated"
                found.append(Difference(kind, customer, f"{sent} mails, expected {expected}"))
        return found

    async def compare_dead_letters(self) -> list[Difference]:
        """Each unusable record is a dead letter with the code of its kind, and no usable record is one: it would be
        lost."""
        missing, found = set(self.model.poison), []
        unreadable = dict(self.model.unreadable)
        for topic in (*TOPICS, "review-changes"):
            for record in await self.fleet.service.records(f"{topic}.dlq"):
                value = (record.value or b"").decode(errors="replace")
                headers = {name: (content or b"").decode(errors="replace") for name, content in record.headers}
                if headers["x-source-topic"] != self.fleet.service.topic(topic):
                    found.append(Difference("wrong", value[:80], f"dead letter in {topic}.dlq names {headers}"))
                place = headers["x-source-topic"], int(headers["x-source-partition"]), int(headers["x-source-offset"])
                unreadable.pop(place, None)
                allowed = self.allowed_codes(value, (record.key or b"").decode(errors="replace"), place)
                if headers["x-error-code"] not in allowed:
                    found.append(Difference("lost", value[:80], f"unexpected dead letter of {topic}: {headers}"))
                else:
                    missing.discard(value)
        found += [Difference("lost", mark, "poison is not a dead letter") for mark in missing]
        return found + [
            Difference("lost", str(place), f"{kind} is not a dead letter") for place, kind in unreadable.items()
        ]

    def allowed_codes(self, value: str, key: str, place: Place) -> Sequence[str]:
        """Error codes that a dead letter may have; empty if the message should have been applied."""
        if value in self.model.poison:
            return [INVALID_JSON]
        if kind := self.model.unreadable.get(place):
            return expected_codes(kind)
        # A run of more than an hour gives up on commands whose review never came.
        not_found = [REVIEW_NOT_FOUND] if key not in self.model.reviews else []
        # A record that was written although Kafka didn't acknowledge it has an unknown offset.
        return [*not_found, *(UNREADABLE_CODES if place[:2] in self.model.unacknowledged else ())]

    async def compare_events(self) -> list[Difference]:
        """Events announce every refusal, every current rating, and the fate of reviews and returns. A repeat is no
        difference."""
        events: dict[str, list[Json]] = defaultdict(list)
        records = await self.fleet.service.records("events")
        for record in records:
            events[kind_of(record)].append(json.loads(record.value))
        pages = self.pages(SEARCH, storeId=ONE_EACH_STORE, sort="createdDate:asc")
        winners = {row["id"] async for row in pages}
        return [
            *self.compare_refusal_events(events["SubmissionRefused"], winners),
            *self.compare_rating_events(events["RatingChanged"]),
            *self.compare_lifecycle_events(events, winners),
            *self.count_events(announced(records), winners),
        ]

    def count_events(self, found: Counter[Change], winners: Set[str]) -> list[Difference]:
        """Each change of a review or return has exactly one event, however often it was published."""
        is_mixed = self.fleet.before is not None
        return [Difference(*each) for each in wrong_events(self.model, found, winners, is_mixed=is_mixed)]

    async def compare_audit(self) -> list[Difference]:
        """Each decision about a review, and each deletion of a return, is in the audit log exactly once."""
        return [Difference(*each) for each in wrong_entries(self.model, await logged(self.fleet.service))]

    def compare_refusal_events(self, events: Sequence[Json], winners: Set[str]) -> list[Difference]:
        """Each refused review has an event with the reason. Of competing reviews, all but the stored one are
        refused."""
        model, announced = self.model, {code: set[str]() for code in REFUSALS}
        for event in events:
            announced.setdefault(event["code"], set()).add(event["reviewId"])
        raced = {id for ids in model.races.values() for id in ids}
        required = {CLOSED: model.refused, TAKEN: model.rivals, SECOND: model.raced - winners}
        allowed = {
            CLOSED: model.refused,
            TAKEN: set(filter(model.may_be_taken, announced[TAKEN])),
            SECOND: raced - winners,
        }
        return [
            *(
                Difference("lost", id, f"no refusal event: {code}")
                for code in required
                for id in required[code] - announced[code]
            ),
            *(
                Difference("wrong", id, f"refusal event without a refusal: {code}")
                for code, ids in announced.items()
                for id in ids - allowed.get(code, set())
            ),
        ]

    def compare_lifecycle_events(self, events: Mapping[str, Sequence[Json]], winners: Set[str]) -> list[Difference]:
        """Each stored review has the events of its submission and of its current status, each created or deleted return
        its own.

        An approval or rejection that a later decision replaced isn't required to have one. Unexpected events are found
        for submissions and deletions of reviews.
        """
        model = self.model
        reviews = {kind: {event["reviewId"] for event in events[kind]} for kind in REVIEW_EVENTS}
        returns = {kind: {event["returnId"] for event in events[kind]} for kind in RETURN_EVENTS}
        gone = {id for id, review in model.reviews.items() if review.status is None}
        # Imported reviews were approved or rejected elsewhere: no event announces that here.
        here = [(id, review.status) for id, review in model.living() if id not in model.pasts]
        required: dict[str, Set[str]] = {
            "ReviewSubmitted": model.reviews.keys() | winners,
            "ReviewDeleted": gone,
            "ReviewApproved": {id for id, status in here if status == "Approved"},
            "ReviewRejected": {id for id, status in here if status == "Rejected"},
            "ReturnCreated": model.returns.keys() | model.deleted_returns,
            "ReturnDeleted": model.deleted_returns,
        }
        found = reviews | returns
        allowed = {"ReviewSubmitted": model.reviews.keys() | winners, "ReviewDeleted": gone}
        return [
            *(Difference("lost", id, f"no {kind} event") for kind in required for id in required[kind] - found[kind]),
            *(
                Difference("wrong", id, f"unexpected {kind} event")
                for kind in allowed
                for id in found[kind] - allowed[kind]
            ),
        ]

    def compare_rating_events(self, events: Sequence[Json]) -> list[Difference]:
        """The event with the highest revision has the current rating, in any order of publication.

        The version before may publish events without revisions: if it takes part, one of the events must have the
        rating.
        """
        by_key: dict[tuple[str, str | None], list[Json]] = defaultdict(list)
        for event in events:
            by_key[event["entityId"], event["storeId"]].append(event)
        expected, found = self.model.ratings(), []
        for key in expected.keys() | by_key.keys():
            about = by_key[key]
            if all("revision" in event for event in about):
                about = sorted(about, key=lambda event: event["revision"])[-1:]
            elif self.fleet.before is None:
                found.append(Difference("wrong", key[0], f"rating event of {key} without a revision: {about[-1]}"))
            shown = [(event["reviewCount"], event["average"], event["histogram"]) for event in about]
            if expected.get(key, (0, 0.0, histogram([]))) not in shown:
                what = f"rating event of {key}: {shown[-1:]}, expected {expected.get(key)}"
                found.append(Difference("wrong" if shown else "lost", key[0], what))
        return found

    async def compare_leftovers(self) -> list[Difference]:
        """No feedback on deleted reviews, no parked commands about known ones, and no owed messages are left behind."""
        return [Difference(*each) for each in await leftovers(self.fleet.service, self.model)]

    async def compare_reviews_topic(self) -> list[Difference]:
        """The topic of reviews, read from its beginning, has every field of every review as the database does."""
        topic, database = await latest(self.fleet.service), await stored(self.fleet.service)
        return [
            Difference("relayed", id, f"topic has {topic.get(id)}, database has {database.get(id)}")
            for id in sorted(topic.keys() | database.keys())
            if topic.get(id) != database.get(id)
        ]

    def check_single_scheduler(self) -> list[Difference]:
        """A scheduler works, and only one at a time. Two may work in the same minute when one takes over, but not in
        most minutes."""
        at_work: dict[str, set[str]] = defaultdict(set)
        for log in self.fleet.service.folder.glob("scheduler-*.log"):
            for line in log.read_text(errors="replace").splitlines():
                if '"reminders sent"' in line:
                    at_work[json.loads(line)["timestamp"][:16]].add(log.stem)
        if not at_work and self.model.mails and self.fleet.names("scheduler"):
            return [Difference("lost", "scheduler", "no scheduler has sent reminders")]
        shared = [minute for minute, schedulers in at_work.items() if len(schedulers) > 1]
        if len(shared) < 2 or len(shared) <= len(at_work) / 2:
            return []
        what = f"several schedulers worked in {len(shared)} of {len(at_work)} minutes: {shared[:5]}"
        return [Difference("duplicated", "scheduler", what)]

    async def rows(self) -> Rows:
        """All reviews and returns, as the API shows them."""
        reviews = {row["id"]: row async for row in self.pages(SEARCH, sort="createdDate:asc")}
        returns = {row["id"]: row async for row in self.pages(f"{RETURNS}/search")}
        return {id: json.dumps(row) for id, row in (reviews | returns).items()}

    async def changed_since(self, before: Rows) -> list[Difference]:
        """Reviews and returns that aren't exactly as they were before."""
        now = await self.rows()
        return [
            Difference("wrong", id, f"a repeat has changed {changed_fields(before.get(id), now.get(id))}")
            for id in sorted(before.keys() | now.keys())
            if before.get(id) != now.get(id)
        ]

    async def pages(self, path: str, **search: Any) -> AsyncIterator[Json]:
        """All results of a search, read page by page."""
        skip, total = 0, 1
        while skip < total:
            answer = await self.http.send("POST", path, {**search, "skip": skip, "take": PAGE})
            total = answer.body["totalCount"]
            for row in answer.body["results"]:
                yield row
            skip += PAGE


def changed_fields(before: str | None, now: str | None) -> str:
    """The fields of a row that differ, before and now."""
    earlier, later = json.loads(before or "{}"), json.loads(now or "{}")
    names = [name for name in earlier.keys() | later.keys() if earlier.get(name) != later.get(name)]
    return ", ".join(f"{name}: {earlier.get(name)} to {later.get(name)}" for name in sorted(names))


def parts(items: Sequence[str], size: int) -> Iterable[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def describe(differences: Sequence[Difference], ledger: Ledger) -> str:
    """The first difference with its object's history, then the number of each sort with an example, then the next
    ones."""
    if not differences:
        return "no differences"
    sorts: dict[str, list[Difference]] = defaultdict(list)
    for difference in differences:
        sorts[f"{difference.kind}, {' '.join(difference.what.split()[:3])}"].append(difference)
    first = differences[0]
    history = "\n".join(f"    {line}" for line in ledger.histories.get(first.id, ["no history"]))
    counts = "\n".join(f"  {len(of)} {sort}: {of[-1].id}: {of[-1].what}"[:300] for sort, of in list(sorts.items())[:30])
    others = "\n".join(f"  {d.kind}: {d.id}: {d.what}"[:300] for d in differences[1:10])
    summary = f"{len(differences)} differences; the first, {first.kind}: {first.id}: {first.what}"
    return "\n".join((summary, history, counts, others))
