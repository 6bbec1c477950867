"""Shapes: the fields that stored documents must have, and stand-ins for missing ones.

Each collection has its shape beside its documents. A document is read as it is first; one that lacks fields is read
again with stand-ins, so that neither a list nor a command fails because of it. `plaudit migrate` mends it.
"""

from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from storage.database import Document

log = structlog.get_logger()

T = TypeVar("T")

STRING: Final = ("string",)
TEXT_OR_NULL: Final = ("string", "null")
WHOLE: Final = ("int", "long")
DATE: Final = ("date",)
ARRAY: Final = ("array",)
OBJECT: Final = ("object",)
BOOL: Final = ("bool",)
BOOL_OR_NULL: Final = ("bool", "null")
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
_MISSING: Final = object()
READ_ERRORS: Final = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError)
"""The errors of reading a document with missing fields or values of other types."""


class StoredDocumentError(Exception):
    """A stored document can't be used, whatever the request: the fault is ours, not the sender's."""

    def __init__(self, collection: str, id: object, reason: str) -> None:
        super().__init__(
            f"The document {id!r} of the collection {collection} can't be used ({reason}); the message itself is not "
            "at fault. `plaudit doctor` finds such documents, and `plaudit migrate` repairs them or lists what is "
            "lost; then send the message again with `plaudit dlq replay`"
        )
        self.collection = collection
        self.id = id
        self.reason = reason


class RequiredField(NamedTuple):
    """A field that must be there."""

    types: tuple[str, ...]
    """The names of its BSON types."""
    stand_in: Callable[[Document], Any]
    """Computes the value that stands in while the field is missing, from the document."""
    is_default: bool = True
    """True if the stand-in may be stored for good when nothing better is known; else the value is lost."""
    values: Collection[Any] | None = None
    """The values that it can have; None: any of these types."""


@dataclass(frozen=True)
class Shape:
    """The fields of those documents of a collection that match `where`; of all by default."""

    collection: str
    fields: Mapping[str, RequiredField]
    where: Document = field(default_factory=dict)

    @cached_property
    def classes(self) -> Mapping[str, tuple[type, ...]]:
        """The Python classes that each field can have."""
        return {name: tuple(_PYTHON[each] for each in field.types) for name, field in self.fields.items()}

    @cached_property
    def values(self) -> Mapping[str, Collection[Any]]:
        """The values of each field that can't have all values of its types."""
        return {name: field.values for name, field in self.fields.items() if field.values is not None}


def default_field(types: tuple[str, ...], value: Any = None, values: Collection[Any] | None = None) -> RequiredField:
    """A field with this default for a missing value."""
    return RequiredField(types, lambda _: value, values=values)


def irrecoverable_field(types: tuple[str, ...], value: Any, values: Collection[Any] | None = None) -> RequiredField:
    """A field whose missing value nobody knows; this one is shown meanwhile."""
    return RequiredField(types, lambda _: value, is_default=False, values=values)


def read(shape: Shape, build: Callable[[Document], T], document: Document) -> T:
    """The result of `build` for a document, with stand-ins for missing fields. Raises StoredDocumentError."""
    try:
        return build(document)
    except READ_ERRORS:
        return read_as_stored(shape.collection, lambda each: build(with_stand_ins(shape, each)), document)


def read_as_stored(collection: str, build: Callable[[Document], T], document: Document) -> T:
    """The result of `build` for a document, for decisions that no stand-in is good enough for. Raises
    StoredDocumentError."""
    try:
        return build(document)
    except READ_ERRORS as error:
        reason = f"{type(error).__name__}: {error}"
        raise StoredDocumentError(collection, document.get("_id"), reason) from error


def read_for_display(shape: Shape, build: Callable[[Document], T], document: Document) -> T:
    """The result of `build` for a document in a list, which also shows unusable ones: of these, only usable fields."""
    try:
        return read(shape, build, document)
    except StoredDocumentError:
        id = {"_id": document.get("_id")}
        fields = {name: document[name] for name in shape.fields if not is_field_damaged(shape, document, name)}
        usable = {name: value for name, value in fields.items() if _is_usable(shape, build, {**id, name: value})}
        return build(with_stand_ins(shape, {**id, **usable}))


async def all_readable(
    documents: AsyncIterable[Document], build: Callable[[Document], T], complaint: str, most: int | None = None
) -> list[T]:
    """The results of `build` for these documents, the first `most` of them. A document that can't be read waits for its
    repair, and stops no other; it is logged once with this complaint."""
    found = list[T]()
    async for document in documents:
        try:
            found.append(build(document))
        except READ_ERRORS as error:
            log_damage(complaint, id=str(document["_id"]), error=repr(error))
        if len(found) == most:
            break
    return found


def _is_usable(shape: Shape, build: Callable[[Document], T], document: Document) -> bool:
    try:
        build(with_stand_ins(shape, document))
    except READ_ERRORS:
        return False
    return True


def require(shape: Shape, document: Document, names: Collection[str]) -> None:
    """Raise StoredDocumentError if one of these fields is missing, for which no stand-in is good enough."""
    if missing := [name for name in names if _is_missing(shape.fields[name], document, name)]:
        raise StoredDocumentError(shape.collection, document.get("_id"), f"without {', '.join(missing)}")


def with_stand_ins(shape: Shape, document: Document) -> Document:
    """The document with stand-ins for its missing fields."""
    missing = {
        name: each.stand_in(document) for name, each in shape.fields.items() if _is_missing(each, document, name)
    }
    return {**document, **missing}


def is_field_damaged(shape: Shape, document: Document, name: str) -> bool:
    """True if a field is missing, or has another type or a value that it can't have."""
    value, classes = document.get(name, _MISSING), shape.classes[name]
    if type(value) not in classes and (isinstance(value, bool) or not isinstance(value, classes)):
        return True
    return name in shape.values and value not in shape.values[name]


def is_whole(shape: Shape, document: Document) -> bool:
    """True if no field is damaged."""
    for name, classes in shape.classes.items():
        # Nearly always, the value is of exactly this class.
        if type(document.get(name, _MISSING)) not in classes and is_field_damaged(shape, document, name):
            return False
    return all(document[name] in values for name, values in shape.values.items())


def check_whole(shape: Shape, document: Document) -> None:
    """Raise TypeError if a field of the document is damaged."""
    _check(shape, document, shape.fields)


def check_present(shape: Shape, document: Document, names: Iterable[str] | None = None) -> None:
    """Raise TypeError if a field that the document has, one of these names, is damaged. Default: all of the shape."""
    _check(shape, document, [name for name in names or shape.fields if name in document])


def _check(shape: Shape, document: Document, names: Iterable[str]) -> None:
    if wrong := [name for name in names if is_field_damaged(shape, document, name)]:
        raise TypeError(f"of the wrong type: {', '.join(wrong)}")


@lru_cache(10_000)
def log_damage(message: str, id: str, error: str) -> None:
    """Log that a stored document is damaged: once in a process, or again after 10,000 others were."""
    log.error(message, id=id, error=error[:500])


def damaged(shape: Shape) -> Document:
    """The filter for documents with a damaged field. MongoDB scans all documents."""
    properties: Document = {name: {"bsonType": list(field.types)} for name, field in shape.fields.items()}
    for name, values in shape.values.items():
        properties[name]["enum"] = list(values)
    schema = {"required": list(shape.fields), "properties": properties}
    return {**shape.where, "$nor": [{"$jsonSchema": schema}]}


def _is_missing(field: RequiredField, document: Document, name: str) -> bool:
    return name not in document or (document[name] is None and "null" not in field.types)
