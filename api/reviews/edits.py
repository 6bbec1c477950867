"""Submissions with ids: new reviews, or edits of stored ones, with the right to edit them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.auth.permissions import forbidden
from api.commands import Earlier
from api.services import Services
from api.stores.bounds import stores_of
from api.web.problems import ItemError, ProblemError, ProblemKind, invalid, nothing_accepted, unavailable
from domain.objects import ObjectKey
from domain.permissions import Caller, Permission
from domain.reviews_edits import EditRight, is_same_review, merged, right_to_edit
from domain.reviews_refusals import Refusal
from messaging.json_values import present
from messaging.metrics import SUBMISSIONS
from messaging.reviews import SubmittedReview
from storage.database import result_or_default
from storage.reviews.ids import IdHolder


@dataclass(frozen=True, slots=True)
class Wanted:
    """A submission of a request. An edit names the review's store and author, even if the request leaves them out."""

    id: str
    review: SubmittedReview
    editor: Mapping[str, Any] = field(default_factory=dict)
    """The sender, for the consumer; without a right if they may edit nothing."""
    right: EditRight | None = None
    is_edit: bool = False

    @property
    def object_key(self) -> ObjectKey:
        """The object and the store."""
        return ObjectKey(self.review.entity, self.review.store_id)

    @property
    def is_moderated(self) -> bool:
        """True for an edit by a moderator, which is exempt from the rules of stores and of authors."""
        return self.is_edit and self.right is EditRight.MODERATOR


async def wanted_by(
    services: Services,
    caller: Caller,
    reviews: Mapping[str, SubmittedReview],
    earlier: Earlier,
    proven: Collection[int] = frozenset(),
) -> list[Wanted]:
    """Separate edits from new reviews, by one look-up of the ids in the request. While the database is unavailable all
    pass as new: the consumer decides. Tokens prove the authors of those at the indexes `proven`. Raises ProblemError if
    an id is taken, if the caller may only edit, if a new review has no text or rating, or if edits can't be
    distinguished from new reviews that the caller may not submit."""
    ids = {review.id for review in reviews.values() if review.id}
    holders = await result_or_default(services.lookups.holders(ids), None) if ids else {}
    if holders is None and caller.may(Permission.MODERATE_REVIEWS) and not _may_create_any(caller):
        raise unavailable("The database")
    is_known, holders = holders is not None, holders or {}
    wanted: list[Wanted] = []
    taken: dict[str, Refusal] = {}
    missing: list[ItemError] = []
    for index, (id, review) in enumerate(reviews.items()):
        holder = holders.get(id)
        if is_known and (holder is None or holder.refused) and id not in earlier.decided:
            missing += _missing(index, review)
        item = _wanted(caller, id, review, holder)
        is_within = item is not None and _is_within(caller, item, holder, index in proven)
        if item and is_within and await _is_free(services, item, holder, earlier):
            wanted.append(item)
        else:
            taken[f"/{index}/id"] = Refusal.ID_TAKEN
    if taken:
        raise refused(ProblemKind.ID_TAKEN, taken)
    if not caller.may(Permission.CREATE_REVIEWS) and not all(item.is_moderated for item in wanted):
        raise forbidden(f"This needs the permission {Permission.CREATE_REVIEWS.value}.")
    if missing:
        raise invalid(missing)
    return wanted


def refused(kind: ProblemKind, reasons: Mapping[str, Refusal]) -> ProblemError:
    """The problem of submissions that are refused for these reasons, by JSON pointer; counts each of them."""
    for reason in reasons.values():
        SUBMISSIONS.labels(reason.value).inc()
    errors: list[ItemError] = [
        {"pointer": pointer, "code": reason.value, "message": reason.message} for pointer, reason in reasons.items()
    ]
    return nothing_accepted(kind, errors)


def _missing(index: int, review: SubmittedReview) -> list[ItemError]:
    """The errors of a new review that omits what only an edit may."""
    message = Refusal.INCOMPLETE.message
    return [{"pointer": f"/{index}/{name}", "code": "missing", "message": message} for name in review.omitted]


def _may_create_any(caller: Caller) -> bool:
    return caller.may(Permission.CREATE_REVIEWS) and caller.may(Permission.CREATE_REVIEWS_FOR_OTHERS)


def _wanted(caller: Caller, id: str, review: SubmittedReview, holder: IdHolder | None) -> Wanted | None:
    """The submission; None if it names another object, store or author than the review with its id."""
    if review.id is None:
        # The id derives from the command's key, which gives no right to edit what an earlier command stored under it.
        return Wanted(id, review)
    stored = holder.identity if holder else None
    if stored is None:
        right = right_to_edit(caller, review.user_id, review.user_id)
        return Wanted(id, review, _editor(caller, right), right)
    right = right_to_edit(caller, review.user_id, stored.user_id)
    names = {"store_id": review.store_id or stored.store_id, "user_id": review.user_id or stored.user_id}
    completed = review.model_copy(update=names)
    if not is_same_review(completed.identity, stored, right):
        return None
    return Wanted(id, completed, _editor(caller, right), right, is_edit=True)


def _is_within(caller: Caller, item: Wanted, holder: IdHolder | None, is_proven: bool) -> bool:
    """False for a stored review of a store or an author that isn't the caller's. Only `id-taken` is answered about it:
    another refusal would confirm what the submission says of the review."""
    if holder is None or holder.identity is None or not item.is_edit:
        return True
    is_author = is_proven or item.right is not None or caller.may_write_as(holder.identity.user_id)
    return is_author and caller.may_touch(holder.identity.store_id)


async def _is_free(services: Services, item: Wanted, holder: IdHolder | None, earlier: Earlier) -> bool:
    """True unless the id is that of a deleted review, or of one that the caller may not edit.

    A whole submission that changes nothing is no edit: a repeated command, or a review sent again as it is.
    """
    if holder is None or holder.refused or item.id in earlier.decided:
        return True
    if holder.identity is None:
        return item.id in earlier.ids
    if item.right:
        return True
    stored = await services.reviews.get(item.id)
    if stored is None or item.review.omitted:
        return False
    return merged(stored.content, item.review.content) == stored.content


def _editor(caller: Caller, right: EditRight | None) -> Mapping[str, Any]:
    fields = {"right": right, "name": caller.subject}
    return present(fields) | stores_of(caller)
