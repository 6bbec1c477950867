"""Mark reviews as verified by purchases, from both sides: when a review is stored, and when an order arrives."""

from collections.abc import Collection

from consumers.reviews.decisions import Decision
from consumers.reviews.submissions import Submission
from consumers.services import Services
from domain.orders import Purchase, VerifiableReview, to_mark
from storage.purchases import PurchaseRepository
from storage.review_tokens import UsedToken


async def verify_reviews(purchases: PurchaseRepository, reviews: Collection[VerifiableReview]) -> None:
    """Mark stored reviews as verified or not, by the present orders.

    Reviews and orders are stored first and looked up afterwards, so the later one sees the other. Concurrent calls may
    write their marks in the wrong order, so each looks again after it has written one, until all are right. Called at
    least once for each review and for each order.
    """
    while reviews:
        reviews = to_mark(reviews, await purchases.existing({review.purchase for review in reviews}))
        await purchases.save_verification(reviews)


async def verify_submissions(services: Services, decided: Collection[tuple[Submission, Decision]]) -> None:
    """Mark the reviews of decided submissions: new reviews, and those whose edits came with a token, which is used up
    unless another review has used it meanwhile.

    Repeats count as well: the process of an edit may have died between its commit and this call.
    """
    reviews = [verifiable(submission, decision) for submission, decision in decided]
    await verify_reviews(services.purchases, [review for review in reviews if review])
    edits = [s for s, v in decided if not v.reason and (v.is_edit or v.is_repeat)]
    if tokens := [UsedToken(s.proof, s.id) for s in edits if s.proof]:
        use = services.review_tokens.use
        holders = await services.transactions.run(lambda work: use(tokens, work.session))
        await services.purchases.verify_for_good(
            [each.review_id for each in tokens if holders[each.token.line] == each.review_id]
        )


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
