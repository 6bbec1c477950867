"""The endpoint for reviews that are written on a page."""

from typing import Annotated, Final

from fastapi import Depends, Request
from pydantic import Field, StringConstraints, TypeAdapter
from starlette.responses import Response

from api.commands import Commanded, command_answers
from api.reviews.submissions import submit_reviews
from api.services import Injected
from api.web.bodies import JsonBody
from api.web.openapi import OPEN_TO_ALL
from api.web.problems import ProblemError, ProblemKind
from api.web.routes import routes
from domain.forms import FormRefusal
from domain.images import MAX_IMAGES
from domain.reviews_facts import Source
from messaging.metrics import SUBMISSIONS
from messaging.reviews import SubmittedReview
from messaging.schemas import (
    AtMost,
    ClosedMessage,
    ImageId,
    Language,
    Name,
    NoNull,
    Rating,
    ReviewText,
    ReviewTokenText,
    Title,
)
from storefront.forms import refusal_of_form, refused
from storefront.middleware import OF_OBJECT
from storefront.rates import rates_of
from storefront.shoppers import Shopper, Writing

Short = Annotated[NoNull, StringConstraints(max_length=256)]
Long = Annotated[NoNull, StringConstraints(max_length=2_048)]


class PageReview(ClosedMessage):
    """A review as a page sends it. Its author is the customer of the token, else nobody; its id is assigned here."""

    rating: Rating
    title: Title | None = None
    review: ReviewText
    user_name: Annotated[Name | None, Field(description="Name shown with it")] = None
    images: Annotated[tuple[ImageId, ...], AtMost(MAX_IMAGES), Field(description="Ids of uploaded images")] = ()
    language: Annotated[Language, Field(description="BCP 47; if missing, detected from the text")] = None
    token: Annotated[ReviewTokenText, Field(repr=False, description="Review token from the link in a reminder")] = None
    stamp: Annotated[Short | None, Field(description="The `stamp` of `form`")] = None
    website: Annotated[Long | None, Field(description="A trap for bots, invisible to visitors: must be empty")] = None
    check: Annotated[Long | None, Field(description="The solved challenge of `form`, as JSON in base64")] = None

    def submitted(self, shopper: Shopper) -> SubmittedReview:
        """The submission, for the object and the store of the page."""
        of_form = {"stamp", "website", "check"}
        return SubmittedReview(
            store_id=shopper.store.id,
            entity_type=shopper.entity.type,
            entity_id=shopper.entity.id,
            **self.model_dump(exclude=of_form, exclude_defaults=True),
        )


NEW_REVIEW: Final = JsonBody(
    TypeAdapter(PageReview),
    {
        "A review": {
            "rating": 4,
            "title": "Solid",
            "review": "It stands in any wind.",
            "userName": "Ann",
            "stamp": "...",
        }
    },
)

router: Final = routes(OF_OBJECT, "Storefront")


@router.post(
    "/reviews",
    openapi_extra=OPEN_TO_ALL,
    **command_answers(ProblemKind.FORBIDDEN, ProblemKind.NOT_FOUND, ProblemKind.TOO_MANY_REQUESTS),
)
async def submit_page_review(
    request: Request,
    shopper: Writing,
    given: Annotated[PageReview, Depends(NEW_REVIEW)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Submit a review from a page: by the customer of its token, or anonymously if the store accepts that."""
    if given.website:
        reason: FormRefusal | None = FormRefusal.WEBSITE_FILLED
    else:
        reason = await refusal_of_form(request, services, shopper, given.stamp, given.check)
    if reason:
        SUBMISSIONS.labels(reason.value).inc()
        raise refused(reason)
    rates_of(request).reviews.take(shopper.address, shopper.store.id, *shopper.entity)
    review = given.submitted(shopper)
    # A request repeated after a lost response may have another stamp, as the first one may have expired.
    command = command.bound_to(review.model_dump_json().encode())
    try:
        return await submit_reviews(services, shopper.caller, command, [review], Source.WIDGET)
    except ProblemError as problem:
        for error in problem.errors:
            # The page sent a single review, not an array.
            error["pointer"] = error["pointer"].removeprefix("/0")
        raise
