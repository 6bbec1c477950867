"""The fields that a stored order must have."""

from collections.abc import Iterable
from typing import Any, Final

from domain.orders import NO_BODY
from domain.reminders import status_key
from domain.returns import Return
from storage.database import Document
from storage.returns.documents import stored_from
from storage.shapes import (
    ARRAY,
    BINARY,
    BOOL,
    OBJECT,
    STRING,
    TEXT_OR_NULL,
    WHOLE,
    RequiredField,
    Shape,
    default_field,
    irrecoverable_field,
)


def _key(document: Document) -> str:
    return status_key(str(document.get("status", "")))


def _since(document: Document) -> Any:
    return document.get("modified", 0)


ORDER: Final = Shape(
    "orders",
    {
        "number": default_field(TEXT_OR_NULL),
        "status": irrecoverable_field(STRING, ""),
        "statusKey": RequiredField(STRING, _key),
        "statusSince": RequiredField(WHOLE, _since),
        "isCancelled": default_field(BOOL, False),
        **dict.fromkeys(("storeId", "customerId", "customerName"), default_field(TEXT_OR_NULL)),
        **dict.fromkeys(("customerEmail", "languageCode"), default_field(TEXT_OR_NULL)),
        # Any event counts as newer then, and brings the whole order.
        "modified": default_field(WHOLE, 0),
        "lines": irrecoverable_field(ARRAY, ()),
        "body": irrecoverable_field(BINARY, NO_BODY),
        **dict.fromkeys(("observations", "digests"), default_field(ARRAY, [])),
        "returned": irrecoverable_field(ARRAY, ()),
        "reminder": default_field(OBJECT, {"sent": 0, "toCustomer": 0}),
    },
)

BROUGHT_BY_EVENTS: Final = frozenset({"status", "lines"})
"""The fields without which an order can't be used, and which every event brings."""


def returned_by(returns: Iterable[Document], *, is_shown: bool = False) -> list[list[Any]]:
    """The field `returned` of an order, from the documents of its returns. Raises StoredDocumentError for a damaged
    one, unless it is only to be shown."""
    taken: dict[str, int] = {}
    for document in returns:
        stored = stored_from(document, is_shown=is_shown)
        if isinstance(stored, Return):
            for line, quantity in stored.quantities().items():
                taken[line] = taken.get(line, 0) + quantity
    return [[line, quantity] for line, quantity in taken.items()]
