"""The endpoint for opening a form, and the checks of submitted forms."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from fastapi import Request
from typing_extensions import TypedDict

from api.services import Injected, Services
from api.web.openapi import OPEN_TO_ALL
from api.web.problems import ItemError, ProblemError, ProblemKind, nothing_accepted, unavailable
from api.web.responses import JsonResponse
from api.web.routes import routes
from domain.forms import LEAST_TIME, FormRefusal, check_key, new_stamp, refusal_of_stamp
from domain.images import MAX_IMAGES, MAX_UPLOAD_BYTES
from domain.stores import refusals
from storefront.challenges import Challenge, new_challenge, refusal_of_check
from storefront.middleware import OF_OBJECT
from storefront.shoppers import Reading, Shopper

_KEYS: Final = "The key of forms, which a worker generates when it first starts,"


class Form(TypedDict):
    """The parameters of a form that is opened now. `stamp` is sent back with the review, `leastSeconds` later at the
    earliest. `open`: reviews are accepted here; `anonymous`: also without a review token. `check`: a challenge to be
    solved, if that is required."""

    stamp: str
    leastSeconds: int
    open: bool
    anonymous: bool
    mostImages: int
    mostImageBytes: int
    check: Challenge | None


router: Final = routes(OF_OBJECT, "Storefront", ProblemKind.NOT_FOUND)


@router.get("/form", response_model=Form, openapi_extra=OPEN_TO_ALL)
async def read_form(request: Request, shopper: Reading, services: Injected) -> JsonResponse:
    """The parameters of a review form that is being opened. They differ each time."""
    key, now = (await _keys(services))[0], datetime.now(UTC)
    challenge = new_challenge(check_key(shopper.object_key, key), now) if request.app.state.storefront_check else None
    store = shopper.store
    is_open = store.settings.reviews_enabled and not await services.lookups.closed({shopper.object_key})
    against_anonymous = refusals(store, user_id=None, has_purchased=False, has_reviewed=False)
    form: Form = {
        "stamp": new_stamp(shopper.object_key, now, key),
        "leastSeconds": int(LEAST_TIME.total_seconds()),
        "open": is_open,
        "anonymous": is_open and not any(against_anonymous),
        "mostImages": MAX_IMAGES,
        "mostImageBytes": MAX_UPLOAD_BYTES,
        "check": challenge,
    }
    return JsonResponse(form, headers={"Cache-Control": "no-store"})


async def refusal_of_form(
    request: Request, services: Services, shopper: Shopper, stamp: str | None, check: str | None
) -> FormRefusal | None:
    """The reason to refuse a review with this stamp and, if that is required, this check; None if there is none."""
    keys = await _keys(services)
    found = refusal_of_stamp(stamp, shopper.object_key, keys, datetime.now(UTC))
    if found is None and request.app.state.storefront_check:
        found = refusal_of_check(check, [check_key(shopper.object_key, key) for key in keys])
    return found


async def check_stamp(services: Services, shopper: Shopper, stamp: str | None) -> None:
    """Raises ProblemError (403) unless the stamp is valid for this object, however recent it is."""
    found = refusal_of_stamp(stamp, shopper.object_key, await _keys(services), datetime.now(UTC), least=timedelta(0))
    if found:
        raise refused(found)


def refused(reason: FormRefusal) -> ProblemError:
    """The problem of a refused form."""
    error: ItemError = {"pointer": f"/{reason.field}", "code": reason.value, "message": reason.message}
    return nothing_accepted(ProblemKind.FORBIDDEN, [error])


async def _keys(services: Services) -> Sequence[bytes]:
    """The keys that verify stamps, the signing one first. Raises ProblemError: there is none yet."""
    keys = await services.review_tokens.keys()
    if not keys:
        raise unavailable(_KEYS)
    return keys
