"""The parts of a review beyond its text as fields of MongoDB documents. A document has only the fields that are set."""

from typing import Final

from domain.reviews import Review
from domain.reviews_facts import NO_RESPONSES, Facts, ReasonCode, Reply, Responses, ReviewImage, Source
from storage.database import Document

_FACTS: Final = ("verifiedPurchase", "incentivized", "source", "language", "provenByToken", "languageGiven")
_RESPONSES: Final = ("helpful", "notHelpful", "reports")
OF_OTHERS: Final = (*_RESPONSES, "reply")
"""The names of the fields that readers and the store fill, which no edit reads or writes."""
EDITED_FACTS: Final = (*_FACTS, "flags", "images", "reasonCode", "held")
"""The names of the other fields, except the mark of an announced review."""
STORED_FACTS: Final = (*OF_OTHERS, *EDITED_FACTS)
"""The names of all these fields, as lists load them."""

_KNOWN: Final = frozenset(STORED_FACTS)


def facts_fields(review: Review) -> Document:
    """The fields that are set."""
    fields: Document = {name: fact for name, fact in zip(_FACTS, review.facts, strict=True) if fact}
    if review.responses != NO_RESPONSES:
        fields |= {name: number for name, number in responses_fields(review.responses).items() if number}
    if review.reply:
        fields["reply"] = reply_fields(review.reply)
    if review.flags:
        fields["flags"] = list(review.flags)
    if review.images:
        fields["images"] = [image_fields(image) for image in review.images]
    if review.reason_code:
        fields["reasonCode"] = review.reason_code
    if review.is_held:
        fields["held"] = True
    if review.is_announced:
        fields["told"] = True
    return fields


def reply_fields(reply: Reply) -> Document:
    """A reply as it is stored."""
    return {
        "text": reply.text,
        "author": reply.author,
        "createdDate": reply.created,
        "modifiedDate": reply.modified,
    }


def reply_from(document: Document) -> Reply:
    """The reply in a document."""
    return Reply(document["text"], document["author"], document["createdDate"], document["modifiedDate"])


def responses_fields(responses: Responses) -> dict[str, int]:
    """The counters of responses, including those at zero."""
    return dict(zip(_RESPONSES, responses, strict=True))


def responses_from(document: Document) -> Responses:
    """The counters in the document of a review."""
    return Responses(*(document.get(name, 0) for name in _RESPONSES))


def image_fields(image: ReviewImage) -> Document:
    """An image as it is stored with its review."""
    marks: Document = {
        "hidden": image.is_hidden,
        "pending": image.is_pending,
        "readyAt": image.ready_at,
        "unseen": image.is_unseen,
    }
    return {"id": image.id, **{name: value for name, value in marks.items() if value}}


def images_from(document: Document) -> tuple[ReviewImage, ...]:
    """The images in the document of a review."""
    return tuple(
        ReviewImage(
            each["id"],
            each.get("hidden", False),
            each.get("pending", False),
            each.get("readyAt"),
            each.get("unseen", False),
        )
        for each in document.get("images", ())
    )


def facts_from(document: Document) -> Facts:
    """The facts in a document."""
    source = document.get("source")
    return Facts(
        document.get("verifiedPurchase", False),
        document.get("incentivized", False),
        Source(source) if source else None,
        document.get("language"),
        document.get("provenByToken", False),
        document.get("languageGiven", False),
    )


def fill_facts(review: Review, document: Document) -> Review:
    """Fill in the parts of a review beyond its text, from its document; returns the same review."""
    if _KNOWN.isdisjoint(document):
        return review
    reason_code, reply = document.get("reasonCode"), document.get("reply")
    review.facts = facts_from(document)
    review.responses = responses_from(document)
    review.reply = reply and reply_from(reply)
    review.flags = tuple(document.get("flags", ()))
    review.images = images_from(document)
    review.is_held = document.get("held", False)
    review.reason_code = ReasonCode(reason_code) if reason_code else None
    return review
