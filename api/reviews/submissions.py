"""Submission of reviews: checked, and published as one command."""

from collections.abc import Sequence
from uuid import UUID

from starlette.responses import Response

from api.commands import Command, Earlier, carry_out, earlier_attempt
from api.images_checks import check_images
from api.reviews.edits import Wanted, wanted_by
from api.reviews.rules import check_rules, read_proofs
from api.services import Services
from api.stores.bounds import check_submissions
from api.web.problems import ItemError, invalid
from domain.delivery import OutgoingMessage
from domain.permissions import Caller
from domain.places import bucket_in, bucket_of, entity_key, placed
from domain.reviews_facts import Source
from messaging.reviews import SubmittedReview
from messaging.topics import Topic


async def submit_reviews(
    services: Services,
    caller: Caller,
    command: Command,
    reviews: Sequence[SubmittedReview],
    source: Source = Source.API,
) -> Response:
    """Check and submit reviews, and answer as `carry_out` does. Their source is `source`, or a reminder if a token
    proves it. Raises ProblemError if one is refused; then none is submitted."""
    earlier = await earlier_attempt(services, command)
    ids = _ids(services, command, reviews, earlier)
    _check_different(ids)
    proofs = await read_proofs(services, reviews)
    wanted = await wanted_by(services, caller, dict(zip(ids, proofs.reviews, strict=True)), earlier, proofs.proven)
    undecided = {index: item for index, item in enumerate(wanted) if item.id not in earlier.decided}
    free = {index for index, item in enumerate(wanted) if item.is_moderated or index not in undecided}
    check_submissions(caller, [item.review for item in wanted], free | proofs.proven)
    await check_rules(services, undecided, proofs.of_reviews)
    await check_images(services, undecided)
    messages = [
        _submission(services, command, index, item, Source.REMINDER if index in proofs.proven else source)
        for index, item in undecided.items()
    ]
    return await carry_out(services, command, ids, messages, earlier=earlier)


def _ids(services: Services, command: Command, reviews: Sequence[SubmittedReview], earlier: Earlier) -> list[str]:
    """The ids of these reviews. A repeat gets the same ones, even if the database has places only since then, or the
    process of the first attempt didn't know yet that it has them."""
    if all(review.id for review in reviews):
        return [review.id or "" for review in reviews]
    plain = [command.item_id(index) for index, _ in enumerate(reviews)]
    in_place = [placed(UUID(id), bucket_of(review.entity)) for id, review in zip(plain, reviews, strict=True)]
    given, others = (in_place, plain) if services.publisher.by_place else (plain, in_place)
    if not earlier.ids.isdisjoint(others):
        given = others
    return [review.id or id for review, id in zip(reviews, given, strict=True)]


def _submission(services: Services, command: Command, index: int, wanted: Wanted, via: Source) -> OutgoingMessage:
    review = wanted.review
    given = review.model_dump(
        by_alias=True, exclude_defaults=True, exclude={"id", "former_id", "command_id", "editor", "via"}
    )
    is_placed = review.id is None and bucket_in(wanted.id) is not None
    former = {"formerId": command.item_id(index)} if is_placed and command.repeatable else {}
    value = {"id": wanted.id, **former, **given, **command.id_field, "editor": wanted.editor, "via": via}
    return services.message(Topic.REVIEW_SUBMISSIONS, entity_key(review.entity), "review.submitted", value)


def _check_different(ids: list[str]) -> None:
    seen: set[str] = set()
    errors: list[ItemError] = []
    for index, id in enumerate(ids):
        if id in seen:
            message = "Another review of this request has the same id"
            errors.append({"pointer": f"/{index}/id", "code": "duplicate-id", "message": message})
        seen.add(id)
    if errors:
        raise invalid(errors)
