"""The codes of dead letters: short, stable, and the same for all topics."""

from enum import StrEnum


class DeadLetterCode(StrEnum):
    """The reason why a record, or a part of it, can never be processed; docs/kafka.md describes each code."""

    EMPTY = "empty"
    TOO_LARGE = "too-large"
    UNDECODABLE = "undecodable"
    INVALID_JSON = "invalid-json"
    INVALID_MESSAGE = "invalid-message"
    DUPLICATE_FIELD = "duplicate-field"
    UNKNOWN_FIELD = "unknown-field"
    INVALID_TIMESTAMP = "invalid-timestamp"
    ID_TAKEN = "id-taken"
    REVIEW_NOT_FOUND = "review-not-found"
    INVALID_ADDRESS = "invalid-address"
    INVALID_MAIL = "invalid-mail"
    NO_SENDER = "no-sender"
    MAIL_REJECTED = "mail-rejected"
    MAIL_UNDELIVERABLE = "mail-undeliverable"
    STORED_DOCUMENT = "stored-document"
    PROCESSING_FAILED = "processing-failed"
