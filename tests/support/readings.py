"""Variants of JSON values derived from the shapes of their types: other letter case, misspelt, null, duplicated."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from messaging.reading_shapes import MessageShape, ObjectField, ObjectShape, folded_name

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class KnownField:
    """A field in a sample: its path, its shape, the object it belongs to, and the names it could have."""

    place: Place
    known: ObjectField
    parent: ObjectShape
    siblings: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.place[-1])


class Twice(dict[str, Any]):
    """An object that is serialized with one more field, whose name may be a duplicate."""

    more: tuple[str, Any]


def fields_in(sample: Any, shape: MessageShape, place: Place = ()) -> Iterator[KnownField]:
    """Every field of a sample at every depth."""
    if isinstance(sample, list) and shape.items:
        for index, item in enumerate(sample):
            yield from fields_in(item, shape.items, (*place, index))
    elif isinstance(sample, dict) and shape.values:
        for name, value in sample.items():
            yield from fields_in(value, shape.values, (*place, name))
    elif isinstance(sample, dict):
        parent = shape.object_for(sample)
        assert parent, place
        for name, value in sample.items():
            known = parent.fields[folded_name(name)]
            yield KnownField((*place, name), known, parent, tuple(shape.known_names()))
            yield from fields_in(value, known.shape, (*place, name))


def objects_in(shape: MessageShape) -> Iterator[ObjectShape]:
    """Every object shape that a value of the type can contain."""
    for each in shape.objects:
        yield each
        for known in each.fields.values():
            yield from objects_in(known.shape)
    for inner in filter(None, (shape.items, shape.values)):
        yield from objects_in(inner)


def changed(sample: Any, place: Place, change: Callable[[dict[str, Any], str], dict[str, Any]]) -> Any:
    """The sample with the object around a field changed."""
    copy = deepcopy(sample)
    *path, name = place
    if not path:
        return change(copy, str(name))
    parent = copy
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = change(parent[path[-1]], str(name))
    return copy


def renamed(sample: Any, place: Place, new: str) -> Any:
    """The sample with a field under another name."""
    return changed(sample, place, lambda parent, name: {new if n == name else n: value for n, value in parent.items()})


def with_value(sample: Any, place: Place, value: Any) -> Any:
    """The sample with another value in a field."""
    return changed(sample, place, lambda parent, name: {**parent, name: value})


def without(sample: Any, place: Place) -> Any:
    """The sample without a field."""
    return changed(sample, place, lambda parent, name: {n: value for n, value in parent.items() if n != name})


def twice(sample: Any, place: Place, other_name: str) -> Any:
    """The sample with a field's value once more, under this name."""

    def change(parent: dict[str, Any], name: str) -> dict[str, Any]:
        written = Twice(parent)
        written.more = (other_name, parent[name])
        return written

    return changed(sample, place, change)


def written(value: Any) -> bytes:
    """A value as JSON, with duplicate fields."""
    return _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = [*value.items(), *([value.more] if isinstance(value, Twice) else [])]
    return "{" + ", ".join(f"{json.dumps(name)}: {_text(content)}" for name, content in pairs) + "}"


def letter_cases(word: str) -> set[str]:
    """The word in other letter cases; `É` isn't a case of `e`."""
    return {word.upper(), word.lower(), word.swapcase(), word[:1].swapcase() + word[1:]} - {word}


def misspelt(known: KnownField) -> Iterator[str]:
    """The field's name with one letter wrong, added or missing, unless that is another field's name."""
    name = known.name
    for wrong in (name[:-1], name + name[-1], name[:1] + "q" + name[2:]):
        if wrong and folded_name(wrong) not in known.parent.fields:
            yield wrong
