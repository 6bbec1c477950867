"""Types of objects that can be reviewed.

Objects of unregistered types can be reviewed, too. Registration adds a presentation, a resolver of names, and child
types.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

RESOLVE_S: Final = 5.0
"""Timeout of a resolver in seconds, for one requested object or for a batch."""


class ResolverError(Exception):
    """Names can't be resolved at the moment; the message says why, without ids and names."""


class PartlyResolvedError(ResolverError):
    """Some names can't be resolved at the moment: `failed` holds their ids, `found` the other objects."""

    def __init__(self, reason: str, found: "Mapping[str, ResolvedEntity]", failed: Collection[str]) -> None:
        super().__init__(reason)
        self.found = found
        self.failed = failed


@dataclass(frozen=True, slots=True)
class ResolvedEntity:
    """The name of an object, and the URL of its image."""

    name: str
    image_url: str | None = None


class Resolver(Protocol):
    """Resolves names and images of objects of one type.

    It may raise any exception, PartlyResolvedError if it knows some, and take any time: its caller sets a timeout.
    """

    async def __call__(self, ids: Collection[str], /) -> Mapping[str, ResolvedEntity]:
        """Names and images by id, without unknown ids."""


@dataclass(frozen=True, slots=True)
class DetailBlade:
    """The view of an object in an administration portal."""

    controller: str
    template: str


@dataclass(frozen=True, slots=True)
class EntityType:
    """A type of objects, with the registration attributes of the specification."""

    entity_type: str
    description: str = ""
    full_type_name: str = ""
    icon: str = ""
    entity_id_field_name: str = "id"
    detail_blade: DetailBlade | None = None
    get_entity: Resolver | None = None
    known_children_types: tuple[str, ...] = ()
    purchase_item_field: str | None = None
    """Field of an order's item that holds the id of such an object: that item is its purchase. Without one, any order
    of the customer in the store is a purchase."""

    def __post_init__(self) -> None:
        """Raise ValueError for a name that no review could have."""
        if not self.entity_type.strip():
            raise ValueError("An object type needs a name")


class EntityTypes:
    """The registered object types, by name."""

    def __init__(self, types: Iterable[EntityType] = ()) -> None:
        """Raises ValueError."""
        self._types: dict[str, EntityType] = {}
        for type in types:
            if type.entity_type in self._types:
                raise ValueError(f"The object type {type.entity_type} is registered twice")
            self._types[type.entity_type] = type

    def __iter__(self) -> Iterator[EntityType]:
        """In the order of registration."""
        return iter(self._types.values())

    def get(self, name: str) -> EntityType | None:
        """The type with this name; None if it isn't registered."""
        return self._types.get(name)

    def resolver(self, name: str) -> Resolver | None:
        """The resolver of a type; None if the type has none or isn't registered."""
        type = self._types.get(name)
        return type.get_entity if type else None

    @property
    def purchase_item_fields(self) -> dict[str, str]:
        """The field of an order's item that holds the object's id, by type; types without one are left out."""
        return {name: type.purchase_item_field for name, type in self._types.items() if type.purchase_item_field}

    def with_children(self, name: str) -> list[str]:
        """A type and its known descendants, registered or not: each once, breadth-first, the type itself first."""
        found: list[str] = []
        waiting = [name]
        while waiting:
            parent = waiting.pop(0)
            if parent not in found:
                found.append(parent)
                type = self._types.get(parent)
                waiting += type.known_children_types if type else ()
        return found


PRODUCT: Final = EntityType(
    entity_type="Product",
    description="A product of the catalog",
    full_type_name="VirtoCommerce.CatalogModule.Core.Model.CatalogProduct",
    icon="fas fa-shopping-bag",
    entity_id_field_name="itemId",
    detail_blade=DetailBlade(
        controller="virtoCommerce.catalogModule.itemDetailController",
        template="Modules/$(VirtoCommerce.Catalog)/Scripts/blades/item-detail.tpl.html",
    ),
    purchase_item_field="productId",
)
"""The sample type; its detail blade belongs to the portal of the reference behaviour."""

SAMPLE: Final = EntityTypes([PRODUCT])
"""The types registered by default."""
