"""Reviews as MongoDB documents: the names of their fields, and conversion to and from the domain."""

from datetime import datetime
from typing import Final

from domain.delivery import NEVER_WRITTEN, NOTHING_SEEN, RecordPosition, Written
from domain.moderation_rules_text import text_hash
from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from domain.reviews_edits import message_digest
from domain.reviews_facts import ReasonCode, Source
from domain.reviews_moderated import ModeratedReview, Restored
from domain.timestamps import milliseconds
from storage.database import Document
from storage.reviews.facts import OF_OTHERS, STORED_FACTS, facts_fields, fill_facts, image_fields, images_from
from storage.reviews.late import stored_fields
from storage.reviews.queue import queue_fields
from storage.reviews.shape import REVIEW, TALLIED, is_uncertain
from storage.seen import seen_document, seen_from
from storage.shapes import StoredDocumentError, check_present, is_whole, read, read_for_display, require

LONG_TEXT_BYTES: Final = 2_048

_TEXT: Final = {"$cond": [{"$eq": [{"$type": "$review"}, "string"]}, "$review", ""]}
TEXT_BYTES: Final = {"$strLenBytes": _TEXT}
LISTED: Final[Document] = {
    **dict.fromkeys(("entityType", "entityId", "entityName", "storeId", "userId", "userName", "title"), 1),
    **dict.fromkeys(("ratingHundredths", "createdDate", "modifiedDate", "submittedAt", "status", "nameWanted"), 1),
    **dict.fromkeys(("moderator", "moderationReason", *STORED_FACTS), 1),
    "review": {"$cond": [{"$lte": [TEXT_BYTES, LONG_TEXT_BYTES]}, _TEXT, TEXT_BYTES]},
}
"""The projection of a review in a list, with the length in bytes in place of a long text."""

MODERATED: Final[Document] = {
    **dict.fromkeys(("entityType", "entityId", "storeId", "ratingHundredths", "status", "seen", "modifiedDate"), 1),
    **dict.fromkeys(
        ("userId", "moderator", "moderationReason", "reasonCode", "reports", "source", "createdDate", "submittedAt"), 1
    ),
    **dict.fromkeys(("title", "review", "flags", "held", "images", "verdictsSeen", "restoredAt"), 1),
}
"""The projection of a review for moderation."""

EDITABLE: Final[Document] = dict.fromkeys((*OF_OTHERS, "seen", "verdictsSeen"), 0)
"""The projection of a review for edits, without responses and the marks of other commands."""

_IDENTITY: Final = ("entityType", "entityId", "storeId", "userId")
"""The fields without which nobody knows who may edit a review."""

_STATUSES: Final = {int(status): status for status in ReviewStatus}


def document_of(review: Review) -> Document:
    """A new review as it is stored."""
    document: Document = {
        "_id": review.id,
        "entityType": review.entity.type,
        "entityId": review.entity.id,
        "storeId": review.store_id,
        "userId": review.user_id,
        "createdDate": review.created,
        **_content_fields(review),
        **stored_fields(review.modified),
        **facts_fields(review),
    }
    if review.name_wanted:
        document["nameWanted"] = True
    if review.submitted:
        document["submittedAt"] = review.submitted
    if review.moderator:
        document["moderator"] = review.moderator
    if review.written is not NEVER_WRITTEN:
        document |= written_fields(review.written)
    return document


def _content_fields(review: Review) -> Document:
    """The fields that every review has and an edit can change."""
    return {
        "entityName": review.entity_name,
        "userName": review.user_name,
        "title": review.title,
        "review": review.text,
        "ratingHundredths": review.rating,
        "status": int(review.status),
        "modifiedDate": review.modified,
        **queue_fields(review.status),
    }


def review_from(document: Document) -> Review:
    """The review in a document, with stand-ins for lost fields."""
    return read_for_display(REVIEW, _review, document)


def whole_review_from(document: Document) -> Review | None:
    """The review in a document; None if it is damaged, so that `review_from` would fill in stand-ins."""
    try:
        return read(REVIEW, _review, document) if is_whole(REVIEW, document) else None
    except StoredDocumentError:
        return None


def _review(document: Document) -> Review:
    # By position, and without a call of the enumeration, for speed: a list has a thousand reviews.
    review = Review(
        document["_id"],
        Entity(document["entityType"], document["entityId"]),
        document["entityName"],
        document["storeId"],
        document["userId"],
        document["userName"],
        document["title"],
        document["review"],
        document["ratingHundredths"],
        document["createdDate"],
        document["modifiedDate"],
        _STATUSES[document["status"]],
        "nameWanted" in document,
        document.get("moderator"),
        document.get("moderationReason"),
        submitted=document.get("submittedAt"),
    )
    return fill_facts(review, document)


def moderated_fields(review: ModeratedReview) -> Document:
    """The fields that moderation, a verdict or a planned approval changes, with their new values."""
    status = int(review.status or 0)
    fields: Document = {
        "status": status,
        "modifiedDate": review.modified,
        "moderator": review.moderator,
        "moderationReason": review.reason,
        **queue_fields(status),
    }
    # No empty marks: planned approvals distinguish them from missing ones.
    if review.seen != NOTHING_SEEN:
        fields["seen"] = seen_document(review.seen)
    if review.verdicts != NOTHING_SEEN:
        fields |= {"verdictsSeen": seen_document(review.verdicts), "flags": list(review.flags)}
    if review.reason_code or review.was_coded:
        fields["reasonCode"] = review.reason_code
    if any(image.is_pending or image.ready_at for image in review.images):
        fields["images"] = [image_fields(image) for image in review.images]
    if review.restored:
        fields |= {"restoredAt": review.restored_at, **restored_fields(review.restored)}
    return fields


def restored_fields(restored: Restored) -> Document:
    """The fields of a review's past in the installation that it comes from."""
    flags: Document = {} if restored.flags is None else {"flags": list(restored.flags), "held": restored.is_held}
    proven: Document = {"verifiedPurchase": True, "provenByToken": True} if restored.is_verified else {}
    return {"source": restored.source, "language": restored.language, **flags, **proven}


def moderated_from(document: Document) -> ModeratedReview:
    """The part of a review that moderation reads; `document` has the fields of MODERATED.

    Raises StoredDocumentError.
    """
    review = read(REVIEW, _moderated, document)
    return review._replace(is_uncertain=True) if is_uncertain(document) else review


def is_moderatable(document: Document) -> bool:
    """True if moderation can read the review; `document` has the fields of MODERATED."""
    try:
        moderated_from(document)
    except StoredDocumentError:
        return False
    return True


def _moderated(document: Document) -> ModeratedReview:
    check_present(REVIEW, document, TALLIED)
    reason_code = document.get("reasonCode")
    return ModeratedReview(
        entity=Entity(document["entityType"], document["entityId"]),
        store_id=document["storeId"],
        rating=document["ratingHundredths"],
        status=ReviewStatus(document["status"]),
        seen=seen_from(document.get("seen")),
        modified=document["modifiedDate"],
        moderator=document.get("moderator"),
        reason=document.get("moderationReason"),
        reason_code=ReasonCode(reason_code) if reason_code else None,
        was_coded=reason_code is not None,
        reports=document.get("reports", 0),
        user_id=document["userId"],
        created=document["createdDate"],
        imported=_imported(document),
        restored_at=_restored_at(document),
        flags=tuple(document.get("flags", ())),
        is_held=document.get("held", False),
        images=images_from(document),
        text_hash=text_hash(document["title"], document["review"]),
        verdicts=seen_from(document.get("verdictsSeen")),
    )


def _imported(document: Document) -> datetime | None:
    is_imported = document.get("source") == Source.IMPORT
    return document.get("submittedAt", document["createdDate"]) if is_imported else None


def _restored_at(document: Document) -> datetime | None:
    """The restored modification date of a review, else None. 0.1.0 stored none: there it is a modification earlier than
    the arrival."""
    came, modified = document.get("submittedAt"), document["modifiedDate"]
    return document.get("restoredAt", modified if came is not None and modified < came else None)


def written_fields(written: Written) -> Document:
    """The record and the messages that wrote a review, as fields."""
    return {"writtenAt": list(written.position), "messages": list(written.messages)}


def written_from(document: Document) -> Written:
    """The record and the messages that wrote a review; only the time is known of one that has lost these fields."""
    if "writtenAt" in document:
        return Written(RecordPosition(*document["writtenAt"]), tuple(document.get("messages", ())))
    return Written(RecordPosition.of_time(milliseconds(document["createdDate"]) + 1))


def editable_from(document: Document) -> Review:
    """The part of a review that edits read; `document` has the fields of EDITABLE.

    Raises StoredDocumentError.
    """
    require(REVIEW, document, _IDENTITY)
    review = read(REVIEW, _editable, document)
    review.is_uncertain = is_uncertain(document)
    return review


def _editable(document: Document) -> Review:
    check_present(REVIEW, document, TALLIED)
    review, written = _review(document), written_from(document)
    if not written.messages:
        said = review.content._replace(images=review.content.images or None)
        written = written._replace(messages=(message_digest(None, said),))
    review.written = written
    return review


def edited_fields(review: Review) -> Document:
    """The fields that an edit changes in every review, with their new values."""
    return {
        **_content_fields(review),
        "moderator": review.moderator,
        "moderationReason": review.moderation_reason,
        **written_fields(review.written),
    }
