"""The types of objects that can be reviewed, and what is known of each.

A type needn't be registered to be reviewed; a registered one has a look, a name for its objects, and children.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

RESOLVE_S: Final = 5.0
"""A resolver may take so long: for an object that somebody asks for, or a batch of them."""


class DuplicateEntityTypeError(ValueError):
    """Two object types were registered under one name."""


class ResolverError(Exception):
    """Names can't be had at the moment; the message says why, without ids and names."""


class PartlyResolvedError(ResolverError):
    """Some names can't be had at the moment: those of the ids in `failed`. `found` are the others."""

    def __init__(self, reason: str, found: "Mapping[str, ResolvedEntity]", failed: Collection[str]) -> None:
        super().__init__(reason)
        self.found = found
        self.failed = failed


@dataclass(frozen=True, slots=True)
class ResolvedEntity:
    """The name of an object, and the address of its picture."""

    name: str
    image_url: str | None = None


class Resolver(Protocol):
    """Tells names and images of objects of one type; ids that it doesn't know are left out of its answer.

    It may raise anything, PartlyResolvedError where it knows some, and take any time: its caller sets a time-out.
    """

    async def __call__(self, ids: Collection[str], /) -> Mapping[str, ResolvedEntity]:
        """Names and images by id."""


@dataclass(frozen=True, slots=True)
class DetailBlade:
    """The view of an object in an administration portal."""

    controller: str
    template: str


@dataclass(frozen=True, slots=True)
class EntityType:
    """A type of objects, with the registration attributes of the specification.

    `purchase_item_field` names the field of an order's item that holds the id of such an object: that item is its
    purchase. Without one, any order of the customer in the store is a purchase.
    """

    entity_type: str
    description: str = ""
    full_type_name: str = ""
    icon: str = ""
    entity_id_field_name: str = "id"
    detail_blade: DetailBlade | None = None
    get_entity: Resolver | None = None
    known_children_types: tuple[str, ...] = ()
    purchase_item_field: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a name that no review could have."""
        if not self.entity_type.strip():
            raise ValueError("An object type needs a name")


class EntityTypes:
    """The registered object types, by name."""

    def __init__(self, types: Iterable[EntityType] = ()) -> None:
        """Raises DuplicateEntityTypeError."""
        self._types: dict[str, EntityType] = {}
        for type in types:
            if type.entity_type in self._types:
                raise DuplicateEntityTypeError(f"The object type {type.entity_type} is registered twice")
            self._types[type.entity_type] = type

    def __iter__(self) -> Iterator[EntityType]:
        """In the order of registration."""
        return iter(self._types.values())

    def get(self, name: str) -> EntityType | None:
        """The type of this name, None if it isn't registered."""
        return self._types.get(name)

    def resolver(self, name: str) -> Resolver | None:
        """The resolver of names of this type's objects; None for a type without one or not registered."""
        type = self._types.get(name)
        return type.get_entity if type else None

    @property
    def purchase_item_fields(self) -> dict[str, str]:
        """By type, the field of an order's item that holds the object's id; types without one are left out."""
        return {name: type.purchase_item_field for name, type in self._types.items() if type.purchase_item_field}

    def with_children(self, name: str) -> list[str]:
        """A type, its known children, theirs, and so on: each once, registered or not, the type itself first."""
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
"""The sample; the portal is the one of the reference behaviour."""

SAMPLE: Final = EntityTypes([PRODUCT])
"""The types that are registered by default."""
