"""Mark reviews as verified by purchases, from both sides: when a review is stored, and when an order arrives."""

from collections.abc import Collection

from consumers.reviews_submissions import Decision, Submission
from domain.orders import VerifiableReview, to_mark
from storage.purchases import PurchaseRepository


async def verify_reviews(purchases: PurchaseRepository, reviews: Collection[VerifiableReview]) -> None:
    """Mark reviews that have been stored, by the orders as they are now.

    Reviews and orders are stored first and looked at then, so whichever of two comes last sees the other. Two that
    look at the same time may write in the wrong order: whoever has written a mark looks again, until it is right.
    Called at least once for each review and for each order.
    """
    while reviews:
        reviews = to_mark(reviews, await purchases.made({review.purchase for review in reviews}))
        await purchases.mark(reviews)


async def verify_submissions(purchases: PurchaseRepository, decided: Collection[tuple[Submission, Decision]]) -> None:
    """Mark the reviews of submissions that have been decided: new ones, and those whose edits bring a token.

    A repeat may be of an edit whose process died between its commit and this.
    """
    reviews = [submission.verifiable(decision) for submission, decision in decided]
    await verify_reviews(purchases, [review for review in reviews if review])
    await purchases.prove([s.id for s, v in decided if s.is_proven and not v.reason and (v.is_edit or v.is_repeat)])


async def verify_customers(purchases: PurchaseRepository, customers: Collection[str]) -> None:
    """Mark the reviews of customers one of whose orders has been stored."""
    await verify_reviews(purchases, await purchases.reviews_of(customers))
