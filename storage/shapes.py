"""The fields that stored documents must have, and what stands in for one that is missing.

Each collection has its shape beside its documents. Reading tries a document as it is; one that lacks fields is read
with their stand-ins, so that neither a list nor a command fails for it. `plaudit migrate` mends it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from storage.database import Document

T = TypeVar("T")

STRING: Final = ("string",)
TEXT_OR_NULL: Final = ("string", "null")
WHOLE: Final = ("int", "long")
DATE: Final = ("date",)
ARRAY: Final = ("array",)
OBJECT: Final = ("object",)
BOOL: Final = ("bool",)
BINARY: Final = ("binData",)

_PYTHON: Final[Mapping[str, type]] = {
    "string": str,
    "null": type(None),
    "int": int,
    "long": int,
    "date": datetime,
    "array": list,
    "object": dict,
    "bool": bool,
    "binData": bytes,
}
_NOTHING: Final = object()
_UNREADABLE: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError)


class StoredDocumentError(Exception):
    """A stored document can't be used, whatever was asked for: it is ours to mend, not the sender's."""

    def __init__(self, collection: str, id: object, reason: str) -> None:
        super().__init__(
            f"The document {id!r} of the collection {collection} can't be used ({reason}): this is no fault of the "
            "message. `plaudit doctor` finds such documents, `plaudit migrate` mends them or says what is lost; "
            "then send the message again: `plaudit dlq replay`"
        )
        self.collection = collection
        self.id = id
        self.reason = reason


class Field(NamedTuple):
    """A field that must be there: the names of its BSON types, and what stands in for it while it is missing, by the
    document. `is_default`: the stand-in may be stored for good where nothing better is known; else the value is lost.
    """

    types: tuple[str, ...]
    stand_in: Callable[[Document], Any]
    is_default: bool = True


@dataclass(frozen=True)
class Shape:
    """The fields of a collection's documents, of those that match `where`."""

    collection: str
    fields: Mapping[str, Field]
    where: Document

    @cached_property
    def classes(self) -> Mapping[str, tuple[type, ...]]:
        """The classes that each field can have in Python."""
        return {name: tuple(_PYTHON[each] for each in field.types) for name, field in self.fields.items()}


def default(types: tuple[str, ...], value: Any = None) -> Field:
    """A field whose missing value is this one."""
    return Field(types, lambda _: value)


def lost(types: tuple[str, ...], value: Any) -> Field:
    """A field whose missing value nobody knows; meanwhile this one is shown."""
    return Field(types, lambda _: value, is_default=False)


def read(shape: Shape, build: Callable[[Document], T], document: Document) -> T:
    """The result of `build` for a document, with stand-ins for missing fields. Raises StoredDocumentError."""
    try:
        return build(document)
    except _UNREADABLE:
        try:
            return build(filled(shape, document))
        except _UNREADABLE as error:
            reason = f"{type(error).__name__}: {error}"
            raise StoredDocumentError(shape.collection, document.get("_id"), reason) from error


def shown(shape: Shape, build: Callable[[Document], T], document: Document) -> T:
    """The same for a list, which shows also what can't be used: of such a document only fields of their types count."""
    try:
        return read(shape, build, document)
    except StoredDocumentError:
        whole = {name: document[name] for name in shape.fields if not is_wanting(shape, document, name)}
        return build(filled(shape, {"_id": document.get("_id"), **whole}))


def require(shape: Shape, document: Document, names: Collection[str]) -> None:
    """Raises StoredDocumentError where one of these fields, which no stand-in is good enough for, is missing."""
    if missing := [name for name in names if _is_missing(shape.fields[name], document, name)]:
        raise StoredDocumentError(shape.collection, document.get("_id"), f"without {', '.join(missing)}")


def filled(shape: Shape, document: Document) -> Document:
    """The document with stand-ins for its missing fields."""
    missing = {
        name: each.stand_in(document) for name, each in shape.fields.items() if _is_missing(each, document, name)
    }
    return {**document, **missing}


def is_wanting(shape: Shape, document: Document, name: str) -> bool:
    """True if a field is missing or of another type."""
    value, classes = document.get(name, _NOTHING), shape.classes[name]
    return type(value) not in classes and (isinstance(value, bool) or not isinstance(value, classes))


def is_whole(shape: Shape, document: Document) -> bool:
    """True if no field is missing or of another type."""
    for name, classes in shape.classes.items():
        # Nearly always a value is of the very class.
        if type(document.get(name, _NOTHING)) not in classes and is_wanting(shape, document, name):
            return False
    return True


def check_whole(shape: Shape, document: Document) -> None:
    """Raises TypeError for a document of which a field is missing or of another type."""
    if wanting := [name for name in shape.fields if is_wanting(shape, document, name)]:
        raise TypeError(f"of another type: {', '.join(wanting)}")


def damaged(shape: Shape) -> Document:
    """The filter for documents that lack a field, or have another type in one. MongoDB looks at every document."""
    properties = {name: {"bsonType": list(field.types)} for name, field in shape.fields.items()}
    schema = {"required": list(shape.fields), "properties": properties}
    return {**shape.where, "$nor": [{"$jsonSchema": schema}]}


def _is_missing(field: Field, document: Document, name: str) -> bool:
    return name not in document or (document[name] is None and "null" not in field.types)
