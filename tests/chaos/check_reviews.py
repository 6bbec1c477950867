"""Checks the lists of reviews: each one once, with its words, status, author, reply, votes, reports, flags and past."""

from tests.chaos.clients import Http
from tests.chaos.difference import Difference
from tests.chaos.feedback import shown_in
from tests.chaos.model import IMPORT_STORE, RULED_STORE, STATUS_AFTER, Feedback, Model
from tests.chaos.reading import pages
from tests.chaos.restored import wrong_pasts as wrong_pasts_of
from tests.chaos.rules import SEARCH
from tests.chaos.rules import wrong_flags as wrong_flags_of


async def wrong_reviews(http: Http, model: Model) -> list[Difference]:
    """The list of reviews has each living review once with the expected fields, one of each race, and no others."""
    shown = {row["id"]: row async for row in pages(http, SEARCH, sort="createdDate:asc")}
    found, purchases = [], model.purchases()
    for id, review in model.living():
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
        feedback = model.feedback.get(id, Feedback()).shown()
        if shown_in(row) != feedback:
            found.append(Difference("wrong", id, f"feedback {shown_in(row)}, expected {feedback}"))
    for entity, ids in model.races.items():
        if (count := sum(shown.pop(id, None) is not None for id in ids)) != 1:
            found.append(
                Difference(
                    "duplicated" if count else "lost", entity, f"{count} of the competing reviews of one customer"
                )
            )
    return found + [Difference("duplicated", id, f"unexpected review: {row}") for id, row in shown.items()]


async def wrong_status_lists(http: Http, model: Model) -> list[Difference]:
    """The list of each status but Approved has exactly the expected reviews. Competing reviews are left out."""
    found, raced = [], {id for ids in model.races.values() for id in ids}
    for status in {*STATUS_AFTER.values()} - {"Approved"}:
        found_now = pages(http, SEARCH, reviewStatus=[status], sort="createdDate:asc")
        shown = {row["id"] async for row in found_now} - raced
        expected = {id for id, review in model.living() if review.status == status}
        found += [Difference("lost", id, f"not in the list of {status}") for id in expected - shown]
        found += [Difference("wrong", id, f"in the list of {status}") for id in shown - expected]
    return found


async def wrong_flags(http: Http, model: Model) -> list[Difference]:
    """Reviews in the store with moderation rules have the flags that its rules and verdicts give them."""
    shown = {row["id"]: row["flags"] async for row in pages(http, SEARCH, storeId=RULED_STORE, sort="createdDate:asc")}
    return [Difference("wrong", id, what) for id, what in wrong_flags_of(model, shown)]


async def wrong_pasts(http: Http, model: Model) -> list[Difference]:
    """Imported reviews have the past they came with, or what was decided here."""
    shown = {row["id"]: row async for row in pages(http, SEARCH, storeId=IMPORT_STORE, sort="createdDate:asc")}
    return [Difference("wrong", id, what) for id, what in wrong_pasts_of(model, shown)]
