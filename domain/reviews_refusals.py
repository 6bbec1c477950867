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
    Refusal.REVIEWS_DISABLED: "No reviews are taken: enable `reviewsEnabled` in the settings of the store, or of "
    "the object where an object update has switched it off.",
    Refusal.ANONYMOUS_NOT_ALLOWED: "The store takes no anonymous reviews: send the author's `userId`.",
    Refusal.PURCHASE_REQUIRED: "The store takes reviews only from customers who made a purchase: "
    "the author has no order with this object.",
    Refusal.DUPLICATE_REVIEW: "The store takes one review of an object from each customer, and the author has written "
    "one: edit that one by its id.",
    Refusal.ID_TAKEN: "The id is taken: choose another one, or leave it out.",
    Refusal.INVALID_PROOF: "The review token is not one of ours: send it as it stands in the mail's link.",
    Refusal.EXPIRED_PROOF: "The review token has expired.",
    Refusal.MISMATCHED_PROOF: "The review token is for another object, store or author.",
    Refusal.USED_PROOF: "The review token was used before: it is for one review.",
    Refusal.UNKNOWN_IMAGE: "There is no such image: upload it, and send the id that the upload is answered with. One "
    "that no review has goes after 24 hours.",
    Refusal.REFUSED_IMAGE: "No image could be made of the upload: see the outcome of its command.",
    Refusal.IMAGE_OF_ANOTHER: "The image belongs to another review, or to another author: upload it again.",
}
