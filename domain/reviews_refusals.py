"""The reasons for refusing a submitted review."""

from enum import StrEnum
from typing import Final


class Refusal(StrEnum):
    """The reason for refusing a review, such as a rule of its store or an id that is taken."""

    UNKNOWN_STORE = "unknown-store"
    REVIEWS_DISABLED = "reviews-disabled"
    ANONYMOUS_NOT_ALLOWED = "anonymous-not-allowed"
    PURCHASE_REQUIRED = "purchase-required"
    DUPLICATE_REVIEW = "duplicate-review"
    ID_TAKEN = "id-taken"
    INCOMPLETE = "incomplete"
    INVALID_PROOF = "token-invalid"
    EXPIRED_PROOF = "token-expired"
    MISMATCHED_PROOF = "token-mismatch"
    USED_PROOF = "token-used"
    UNKNOWN_IMAGE = "unknown-image"
    REFUSED_IMAGE = "image-refused"
    IMAGE_OF_ANOTHER = "image-of-another"

    @property
    def message(self) -> str:
        """A message for the caller, including the remedy if there is one."""
        return _MESSAGES[self]


_MESSAGES: Final = {
    Refusal.UNKNOWN_STORE: "No store is registered with this id: register it, or correct `storeId`.",
    Refusal.REVIEWS_DISABLED: "Reviews are disabled: enable `reviewsEnabled` in the settings of the store, or for "
    "the object if an object update has disabled it.",
    Refusal.ANONYMOUS_NOT_ALLOWED: "The store accepts no anonymous reviews: name the author by `userId` or by a "
    "review token (`token`).",
    Refusal.PURCHASE_REQUIRED: "The store accepts reviews only from customers who made a purchase: the author has no "
    "order with this object.",
    Refusal.DUPLICATE_REVIEW: "The store accepts one review per customer and object, and the author has written one: "
    "edit that review by its id.",
    Refusal.ID_TAKEN: "The id is taken: choose another one, or omit it.",
    Refusal.INCOMPLETE: "No review has this id, so `review` and `rating` are required: only an edit may omit them.",
    Refusal.INVALID_PROOF: "The review token is not valid: send it unchanged, as in the link of the mail.",
    Refusal.EXPIRED_PROOF: "The review token has expired.",
    Refusal.MISMATCHED_PROOF: "The review token is for another object, store or author.",
    Refusal.USED_PROOF: "The review token was used before: it is valid for one review.",
    Refusal.UNKNOWN_IMAGE: "There is no image with this id: upload it, and send the `id` in the response. Images "
    "that no review uses are deleted after 24 hours.",
    Refusal.REFUSED_IMAGE: "The upload could not be converted into an image: see the outcome of its command.",
    Refusal.IMAGE_OF_ANOTHER: "The image belongs to another review, or to another author: upload it again.",
}
