"""Messages about reviewed objects."""

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, TypeAdapter

from domain.objects import Fact, ObjectKey
from domain.ratings import Entity
from messaging.schemas import AtMost, EntityName, Id, Name, OptionalId, PartialMessage, usable

_NO_BLANKS: Final = r"^[^\s\x00-\x1f\x7f]*$"


def _check_url(text: str) -> None:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("Use an address that begins with https:// or http:// and a host")


Url = Annotated[str, StringConstraints(max_length=2_048, pattern=_NO_BLANKS), usable(_check_url, "invalid_url")]
Codes = Annotated[tuple[Name, ...], AtMost(100)]


class ObjectUpdate(PartialMessage):
    """Facts of an object, for one store or for all; omitted fields keep their values."""

    entity_type: Id
    entity_id: Id
    store_id: Annotated[OptionalId, Field(description="Missing: for all stores that have no value of their own")] = None
    name: EntityName | None = None
    url: Url | None = None
    image_url: Url | None = None
    gtins: Codes | None = None
    mpns: Codes | None = None
    skus: Codes | None = None
    brands: Codes | None = None
    reviews_enabled: Annotated[
        bool | None, Field(description="false: its reviews are neither accepted nor requested")
    ] = None

    @property
    def object_key(self) -> ObjectKey:
        """The object and the store."""
        return ObjectKey(Entity(self.entity_type, self.entity_id), self.store_id)

    def facts(self) -> dict[str, Fact]:
        """The facts that the message contains, by the names of the interface."""
        facts: dict[str, Any] = self.model_dump(
            by_alias=True, exclude_none=True, exclude={"entity_type", "entity_id", "store_id"}
        )
        return facts


OBJECT_UPDATE: TypeAdapter[ObjectUpdate] = TypeAdapter(ObjectUpdate)
