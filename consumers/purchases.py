"""Mark reviews as verified by purchases, from both sides: when a review is stored, and when an order arrives."""

from collections.abc import Collection

from consumers.reviews.decisions import Decision
from consumers.reviews.submissions import Submission
from domain.orders import Purchase, VerifiableReview, to_mark
from storage.purchases import PurchaseRepository


async def verify_reviews(purchases: PurchaseRepository, reviews: Collection[VerifiableReview]) -> None:
    """Mark stored reviews as verified or not, by the present orders.

    Reviews and orders are stored first and looked up afterwards, so the later one sees the other. Concurrent calls may
    write their marks in the wrong order, so each looks again after it has written one, until all are right. Called at
    least once for each review and for each order.
    """
    while reviews:
        reviews = to_mark(reviews, await purchases.existing({review.purchase for review in reviews}))
        await purchases.save_verification(reviews)


async def verify_submissions(purchases: PurchaseRepository, decided: Collection[tuple[Submission, Decision]]) -> None:
    """Mark the new reviews of decided submissions."""
    reviews = [verifiable(submission, decision) for submission, decision in decided]
    await verify_reviews(purchases, [review for review in reviews if review])


def verifiable(submission: Submission, decision: Decision) -> VerifiableReview | None:
    """The review of a submission, to be verified once it is stored; None if purchases can't verify it."""
    identity = submission.key.identity
    if not decision.is_stored or identity.user_id is None or submission.proof:
        return None
    purchase = Purchase(identity.store_id, identity.user_id, identity.entity)
    return VerifiableReview(submission.id, purchase, None if decision.is_repeat else submission.is_bought)


async def verify_customers(purchases: PurchaseRepository, customers: Collection[str]) -> None:
    """Mark the reviews of customers for whom an order has been stored."""
    await verify_reviews(purchases, await purchases.reviews_of(customers))
