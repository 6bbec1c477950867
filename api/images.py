"""Endpoints of images: upload, fetch, hide and show."""

from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import Depends, Path, Query, Request
from starlette.responses import Response

from api.auth.permissions import Moderator, ReviewAuthor, Visitor
from api.commands import Command, Commanded, Reason, begin_command, carry_out, command_answers
from api.services import Injected, Services
from api.stores.bounds import check_author, check_review, stores_of
from api.web.concurrency import take_room
from api.web.openapi import OPEN_TO_STRANGERS, problems
from api.web.problems import ProblemError, ProblemKind
from api.web.responses import matches_etag
from api.web.routes import routes
from api.web.uploads import ACCEPTED_FORMATS, Upload
from domain.images import ImageState, format_of, upload_digest
from domain.permissions import Caller, Permission
from domain.reviews import ReviewStatus
from messaging.json_values import present
from messaging.schemas import Id, ImageId, OptionalId
from messaging.topics import Topic

_NOT_FOUND: Final = "There is no image with this id, or you have no access to it."
_UNKNOWN_FORMAT: Final = f"This is not an image in an accepted format: {', '.join(ACCEPTED_FORMATS)}."
_PUBLIC: Final = "public, no-cache"
_PRIVATE: Final = "private, no-store"

UPLOAD: Final = Upload()
router: Final = routes("", "Images")

Size = Literal["1600", "320"]
ImagePath = Annotated[ImageId, Path(alias="imageId")]
ReviewPath = Annotated[Id, Path(alias="id")]


@router.post(
    "/api/images",
    operation_id="uploadImage",
    **command_answers(ProblemKind.TOO_LARGE, ProblemKind.UNSUPPORTED_MEDIA_TYPE),
)
async def upload(
    caller: ReviewAuthor,
    content: Annotated[bytes, Depends(UPLOAD)],
    command: Commanded,
    services: Injected,
    user_id: Annotated[
        OptionalId, Query(alias="userId", description="Author of the review that the image is for")
    ] = None,
) -> Response:
    """Upload an image for a review, which then names it by `id`: JPEG, PNG or WebP. It is rebuilt without any metadata,
    and removed after 24 hours unless a review has it by then."""
    check_author(caller, user_id)
    return await take_upload(services, command, content, user_id or _uploader(caller))


async def take_upload(services: Services, command: Command, content: bytes, uploader: str | None) -> Response:
    """Store an uploaded file, request an image of it, and answer as `carry_out` does. `uploader`: the person, None if
    unknown. Raises ProblemError if the format isn't supported, GenericError if the image store isn't the one used
    before."""
    if format_of(content) not in ACCEPTED_FORMATS:
        raise ProblemError(ProblemKind.UNSUPPORTED_MEDIA_TYPE, _UNKNOWN_FORMAT)
    id, digest = command.item_id(0), upload_digest(content)
    earlier = await begin_command(services, command)
    await services.image_store_check.run()
    await services.image_files.put_upload(id, digest, content)
    fields = {"id": id, "digest": digest, "uploader": uploader, **command.id_field}
    value = present(fields)
    message = services.message(Topic.IMAGE_UPLOADS, id, "image.uploaded", value)
    return await carry_out(services, replace(command, names_id=True), [id], [message], earlier=earlier)


def _uploader(caller: Caller) -> str | None:
    """The caller if it writes only for itself; a shop uploads for any of its customers."""
    return None if caller.may(Permission.CREATE_REVIEWS_FOR_OTHERS) else caller.subject


@router.get(
    "/api/images/{imageId}",
    response_class=Response,
    responses={
        200: {"content": {"image/jpeg": {}}},
        304: {},
        **problems(ProblemKind.NOT_FOUND),
    },
    openapi_extra=OPEN_TO_STRANGERS,
)
async def read_image(
    visitor: Visitor,
    request: Request,
    services: Injected,
    image_id: Annotated[str, Path(alias="imageId")],
    size: Annotated[Size, Query(description="Maximum length of the longest side, in pixels")] = "1600",
) -> Response:
    """An image as JPEG. Images of approved reviews are public unless a moderator has hidden them; all others are for
    callers who may read reviews of their store (`customerReviews:read`)."""
    image = await services.images.get(image_id)
    if image is None or image.state is not ImageState.READY:
        raise ProblemError(ProblemKind.NOT_FOUND, _NOT_FOUND)
    review = await services.review_images.get(image.review_id)
    entry = review.image(image_id) if review else None
    is_public = bool(review and review.status is ReviewStatus.APPROVED and entry and not entry.is_hidden)
    store_id = review.store_id if review else None
    if not is_public and not (visitor.may(Permission.READ_REVIEWS) and visitor.may_touch(store_id)):
        raise ProblemError(ProblemKind.NOT_FOUND, _NOT_FOUND)
    headers = {
        "ETag": f'"{image_id}-{size}"',
        "Cache-Control": _PUBLIC if is_public else _PRIVATE,
        "Cross-Origin-Resource-Policy": "cross-origin" if is_public else "same-origin",
    }
    if matches_etag(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    file = await services.image_files.find(image_id, int(size))
    if file is None:
        # It has been removed just now, or its volume isn't mounted.
        await services.image_store_check.run()
        raise ProblemError(ProblemKind.NOT_FOUND, _NOT_FOUND)
    await take_room(request.scope, file.size)
    return Response(await file.read(), media_type="image/jpeg", headers=headers)


@router.post("/api/customerReviews/{id}/images/{imageId}/hide", operation_id="hideImage", **command_answers())
async def hide(
    caller: Moderator,
    command: Commanded,
    services: Injected,
    id: ReviewPath,
    image_id: ImagePath,
    reason: Reason = None,
) -> Response:
    """Hide an image of a review: only callers who may read reviews see it from then on."""
    return await _set_visibility(services, caller, command, "hide", id, image_id, reason)


@router.post("/api/customerReviews/{id}/images/{imageId}/show", operation_id="showImage", **command_answers())
async def show(
    caller: Moderator,
    command: Commanded,
    services: Injected,
    id: ReviewPath,
    image_id: ImagePath,
    reason: Reason = None,
) -> Response:
    """Show an image of a review again."""
    return await _set_visibility(services, caller, command, "show", id, image_id, reason)


async def _set_visibility(
    services: Services, caller: Caller, command: Command, action: str, id: str, image_id: str, reason: str | None
) -> Response:
    await check_review(services, caller, id)
    fields = {
        "action": action,
        "imageId": image_id,
        "reviewId": id,
        "moderator": caller.subject,
        "reason": reason or None,
    }
    value = present(fields) | stores_of(caller) | command.id_field
    message = services.message(Topic.IMAGE_COMMANDS, image_id, "image.command", value)
    return await carry_out(services, command, [image_id], [message])
