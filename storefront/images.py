"""The endpoint for images of a review that is written on a page."""

from typing import Annotated, Final

from fastapi import Depends, Query, Request
from starlette.responses import Response

from api.commands import Commanded, command_answers
from api.images import UPLOAD, take_upload
from api.services import Injected
from api.web.openapi import OPEN_TO_ALL
from api.web.problems import ProblemKind
from api.web.routes import routes
from messaging.schemas import NoNull
from storefront.forms import check_stamp
from storefront.middleware import OF_OBJECT
from storefront.rates import rates_of
from storefront.shoppers import Shopper, Writing


async def uploader(
    request: Request,
    shopper: Writing,
    services: Injected,
    stamp: Annotated[NoNull | None, Query(max_length=256, description="The `stamp` of `form`")] = None,
) -> Shopper:
    """A shopper with a valid stamp, and within the rate of uploads. Raises ProblemError before the image is read."""
    await check_stamp(services, shopper, stamp)
    rates_of(request).images.take(shopper.address, shopper.store.id, *shopper.entity)
    return shopper


router: Final = routes(OF_OBJECT, "Storefront")


@router.post(
    "/images",
    openapi_extra=OPEN_TO_ALL,
    **command_answers(
        ProblemKind.FORBIDDEN,
        ProblemKind.NOT_FOUND,
        ProblemKind.TOO_LARGE,
        ProblemKind.UNSUPPORTED_MEDIA_TYPE,
        ProblemKind.TOO_MANY_REQUESTS,
    ),
)
async def upload_on_page(
    shopper: Annotated[Shopper, Depends(uploader)],
    content: Annotated[bytes, Depends(UPLOAD)],
    command: Commanded,
    services: Injected,
) -> Response:
    """Upload an image for a review, which names it by `id`: JPEG, PNG or WebP. It is rebuilt without any metadata, and
    removed after 24 hours if no review uses it by then."""
    # A repeated request may have another stamp, so only the image identifies it.
    return await take_upload(services, command.bound_to(content), content, shopper.caller.subject)
