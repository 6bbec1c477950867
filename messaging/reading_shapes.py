"""Shapes of message types: their field names, enumeration words and integers, for `messaging.reading`.

The slow path corrects values by them; on the fast path Pydantic has found them correct already.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import BaseModel

_TAG_ERRORS: Final = frozenset(("union_tag_invalid", "union_tag_not_found"))


@dataclass(frozen=True, slots=True)
class ObjectField:
    """A field of an object: its name on the wire, and the shape of its content."""

    name: str
    shape: "MessageShape"


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """The fields of a model by their folded names. `is_closed`: unknown fields are refused."""

    name: str
    fields: Mapping[str, ObjectField]
    is_closed: bool

    def suits(self, names: Mapping[str, Any]) -> bool:
        """False if a discriminator holds the word of another type."""
        for folded, value in names.items():
            known = self.fields.get(folded)
            tag = known is not None and known.shape.is_tag
            if known is not None and tag and folded_name(value) not in known.shape.words:
                return False
        return True


@dataclass(frozen=True, slots=True)
class MessageShape:
    """A type, as far as reading depends on it."""

    objects: tuple[ObjectShape, ...] = ()
    """The types of objects that it may be."""
    items: "MessageShape | None" = None
    """The shape of its items."""
    values: "MessageShape | None" = None
    """The shape of its values, if it is an object with any names."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The words of its enumeration, by their folded form."""
    is_whole: bool = False
    is_fraction: bool = False
    is_tag: bool = False
    takes_null: bool = False

    @property
    def name(self) -> str:
        """The name of its first type of objects; empty without one."""
        objects = self.objects or (self.items.objects if self.items else ())
        return objects[0].name if objects else ""

    def object_for(self, value: Mapping[str, Any]) -> ObjectShape | None:
        """The type of objects that these fields are meant for: of several, the one that knows most of the fields."""
        if len(self.objects) < 2:
            return self.objects[0] if self.objects else None
        names = {folded_name(name): content for name, content in value.items()}
        suitable = [each for each in self.objects if each.suits(names)] or self.objects
        return max(suitable, key=lambda each: len(names.keys() & each.fields.keys()))

    def known_names(self) -> list[str]:
        """The names of all fields that an object of this type may have, sorted."""
        return sorted({field.name for each in self.objects for field in each.fields.values()})

    def tags(self) -> dict[str, set[str]]:
        """The discriminators of its types of objects, by name, each with its words."""
        words: dict[str, set[str]] = {}
        for each in self.objects:
            for tag in each.fields.values():
                if tag.shape.is_tag:
                    words.setdefault(tag.name, set()).update(tag.shape.words.values())
        return words

    def without(self, hidden: Collection[str]) -> "MessageShape":
        """The shape without the fields of these names, at the top or in the items of an array."""
        objects = tuple(
            replace(each, fields={folded: f for folded, f in each.fields.items() if f.name not in hidden})
            for each in self.objects
        )
        return replace(self, objects=objects, items=self.items and self.items.without(hidden))


NO_SHAPE: Final = MessageShape()


def of_one_type(details: Iterable[Any], shape: MessageShape, value: Any) -> Iterator[Mapping[str, Any]]:
    """The details of a failed validation at their places in the value, whose names are correct already.

    For a value that may be of several types Pydantic reports the errors of all types, each below the name of the type
    or the word of its discriminator. Only those of the type that the value is meant for count.
    """
    if len(shape.objects) < 2 or not isinstance(value, dict):
        yield from details
        return
    meant, tags = shape.object_for(value), shape.tags()
    types = {each.name for each in shape.objects}
    words = [value.get(name) for name in tags]
    for detail in details:
        first, *others = detail["loc"] or ("",)
        if detail["type"] in _TAG_ERRORS and not detail["loc"]:
            tag = detail["ctx"]["discriminator"].strip("'")
            known = ", ".join(sorted(tags[tag]))
            yield {"loc": (tag,), "type": detail["type"], "msg": f"Must be one of {known}"}
        elif first not in types:
            yield {**detail, "loc": others} if first in words else detail
        elif meant is not None and first == meant.name:
            yield {**detail, "loc": others}


def folded_name(name: object) -> str:
    """The form in which names and words are compared: letter case makes no difference."""
    return name.casefold() if isinstance(name, str) else ""


def shape_of(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> MessageShape:
    """The shape of a type, from Pydantic's core schema. Raises TypeError for a type that no message uses yet."""
    known = definitions or {}
    match schema["type"]:
        case "definitions":
            return shape_of(schema["schema"], {each["ref"]: each for each in schema["definitions"]})
        case "definition-ref":
            return shape_of(known[schema["schema_ref"]], known)
        case "model":
            return MessageShape(objects=(_object_shape(schema, known),))
        case ("tuple" | "dict") as kind if schema.get("max_length") and not schema.get("fail_fast"):
            raise TypeError(f"Limit each {kind} by AtMost, which also counts invalid items")
        case "list" | "tuple":
            items = schema["items_schema"]
            return MessageShape(
                items=_union([shape_of(e, known) for e in (items if isinstance(items, list) else [items])])
            )
        case "dict":
            return MessageShape(values=shape_of(schema["values_schema"], known))
        case "nullable":
            return replace(shape_of(schema["schema"], known), takes_null=True)
        case "union":
            return _union([shape_of(e[0] if isinstance(e, tuple) else e, known) for e in schema["choices"]])
        case "tagged-union":
            return _union([shape_of(each, known) for each in schema["choices"].values()])
        case "lax-or-strict":
            return shape_of(schema["lax_schema"], known)
        case "default" | "function-after" | "function-before" | "function-wrap":
            return shape_of(schema["schema"], known)
        case "literal":
            words = [each for each in schema["expected"] if isinstance(each, str)]
            return MessageShape(words={folded_name(word): word for word in words}, is_tag=bool(words))
        case "enum":
            words = [each.value for each in schema["members"]]
            return MessageShape(words={folded_name(word): word for word in words if isinstance(word, str)})
        case "int" | "float":
            return MessageShape(is_whole=schema["type"] == "int", is_fraction=schema["type"] == "float")
        case "str" | "bool" | "datetime" | "function-plain":
            return MessageShape()
        case other:
            raise TypeError(f"No shape of {other} yet: say here how its content is read")


def _union(shapes: Sequence[MessageShape]) -> MessageShape:
    return MessageShape(
        objects=tuple(each for shape in shapes for each in shape.objects),
        items=next((shape.items for shape in shapes if shape.items), None),
        values=next((shape.values for shape in shapes if shape.values), None),
        words={folded: word for shape in shapes for folded, word in shape.words.items()},
        is_whole=any(shape.is_whole for shape in shapes),
        is_fraction=any(shape.is_fraction for shape in shapes),
        is_tag=any(shape.is_tag for shape in shapes),
        takes_null=any(shape.takes_null for shape in shapes),
    )


def _object_shape(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> ObjectShape:
    model: type[BaseModel] = schema["cls"]
    fields: dict[str, ObjectField] = {}
    for attribute, field_schema in _model_fields(schema, definitions).items():
        names = _wire_names(attribute, field_schema.get("validation_alias"))
        known = ObjectField(names[0], shape_of(field_schema["schema"], definitions))
        for name in names:
            if fields.setdefault(folded_name(name), known) is not known:
                raise TypeError(f"Two fields of {model.__name__} have the name {name}")
    return ObjectShape(model.__name__, fields, is_closed=model.model_config.get("extra") == "forbid")


def _model_fields(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a model, inside validators of the whole model."""
    while schema["type"] != "model-fields":
        schema = definitions[schema["schema_ref"]] if schema["type"] == "definition-ref" else schema["schema"]
    fields: Mapping[str, Any] = schema["fields"]
    return fields


def _wire_names(attribute: str, alias: str | Sequence[Sequence[str]] | None) -> list[str]:
    """The names of a field on the wire; the first is that of the interface."""
    if alias is None or isinstance(alias, str):
        return [alias or attribute]
    return [path[0] for path in alias]
