"""MongoDB commands that a sharded cluster would send to every shard, or refuse, found by a command listener."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pymongo import HASHED, monitoring

import storage
from storage.shards import SHARD_KEYS
from tests.support.scattering import SCATTERING

VARIABLE: Final = "UNTARGETED_COMMANDS"
"""Environment variable with the file to which processes write their findings."""

_STORAGE: Final = Path(storage.__path__[0])
_HELPERS: Final = ("id_ranges", "queries", "ratings.slices", "shapes")
"""Modules of `storage/` that send queries on behalf of others."""

_QUERIES: Final = ("find", "count", "distinct", "aggregate", "findAndModify", "update", "delete", "insert")
_BOUNDS: Final = ("$gt", "$gte", "$lt", "$lte")

Json = Mapping[str, Any]


class Question(NamedTuple):
    """A filter sent to a collection; `is_single` if the command changes one document."""

    filter: Json
    is_single: bool = False
    is_upsert: bool = False


class Untargeted(NamedTuple):
    """A command without a shard key: the function of `storage/` that sends it, and a cluster's reaction."""

    function: str
    collection: str
    fields: tuple[str, ...]
    is_refused: bool = False

    @property
    def is_allowed(self) -> bool:
        """True for a query that may be sent to every shard."""
        return not self.is_refused and self.function in SCATTERING

    def __str__(self) -> str:
        effect = "would be refused" if self.is_refused else "goes to every shard"
        return f"{self.function} {effect}: {self.collection} by {', '.join(self.fields) or 'nothing'}"


def untargeted(name: str, command: Json) -> Iterator[Untargeted]:
    """The parts of a command that a cluster would send to every shard, or refuse."""
    key = SHARD_KEYS.get(str(command.get(name))) if name in _QUERIES else None
    if key is None:
        return
    for question in questions(name, command):
        named = all(names_place(question.filter, field, is_range=kind != HASHED) for field, kind in key.items())
        exact = all(names_place(question.filter, field, is_one=True) for field in key)
        # Without a shard key a cluster finds a single document by its id, but an upsert needs the key.
        is_refused = question.is_single and not exact and (question.is_upsert or not _has_one_id(question.filter))
        if is_refused or not named:
            fields = tuple(sorted(field for field, _ in conditions(question.filter)))
            yield Untargeted(_calling_function(), str(command[name]), fields, is_refused)


def questions(name: str, command: Json) -> Iterator[Question]:
    """The filters in a command."""
    match name:
        case "find":
            yield Question(command.get("filter", {}))
        case "count" | "distinct":
            yield Question(command.get("query", {}))
        case "aggregate":
            first: Json = next(iter(command["pipeline"]), {})
            yield Question(first.get("$match", {}))
        case "findAndModify":
            yield Question(command.get("query", {}), is_single=True, is_upsert=command.get("upsert", False))
        case "update":
            for each in command["updates"]:
                yield Question(each["q"], not each.get("multi"), is_upsert=each.get("upsert", False))
        case "delete":
            for each in command["deletes"]:
                yield Question(each["q"], is_single=each["limit"] == 1)
        case _:
            return  # inserted documents always have an id and their shard key


def conditions(filter: Json) -> Iterator[tuple[str, Any]]:
    """The conditions on fields that must all hold."""
    for name, condition in filter.items():
        if name == "$and":
            for each in condition:
                yield from conditions(each)
        else:
            yield name, condition


def names_place(filter: Json, field: str, *, is_range: bool = False, is_one: bool = False) -> bool:
    """True if a filter restricts a shard key field to values, or to ranges if it is sharded by ranges.

    `is_one`: only to a single value.
    """
    for name, condition in conditions(filter):
        if name == field and _is_named(condition, is_range=is_range, is_one=is_one):
            return True
        if name == "$or" and not is_one and all(names_place(each, field, is_range=is_range) for each in condition):
            return True
    return False


def _is_named(condition: Any, *, is_range: bool, is_one: bool) -> bool:
    if not isinstance(condition, Mapping) or not any(str(name).startswith("$") for name in condition):
        return True
    if "$eq" in condition or ("$in" in condition and (not is_one or len(condition["$in"]) == 1)):
        return True
    bounds = [name for name in condition if name in _BOUNDS]
    return is_range and not is_one and len(bounds) == 2


def _has_one_id(filter: Json) -> bool:
    return names_place(filter, "_id", is_one=True)


def _calling_function() -> str:
    """The function of `storage/` that sends the current command, or the outermost function without one."""
    frame = sys._getframe()
    while frame.f_back is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(_STORAGE):
            module = ".".join(file.relative_to(_STORAGE).with_suffix("").parts)
            if module not in _HELPERS:
                return f"{module}.{frame.f_code.co_qualname.partition('.<locals>')[0]}"
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"


class Listener(monitoring.CommandListener):
    """Writes down commands without a shard key that aren't allowed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        for found in untargeted(event.command_name, event.command):
            if not found.is_allowed and ":" not in found.function:  # not the tests' own queries
                with self._file.open("a") as file:
                    file.write(json.dumps(found) + "\n")

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """The command was checked when it started."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """The command was checked when it started."""


def listen() -> None:
    """Register the listener for all later clients of this process, if its environment has `VARIABLE`."""
    if file := os.environ.get(VARIABLE):
        monitoring.register(Listener(Path(file)))


def found_in(file: Path) -> list[Untargeted]:
    """The recorded findings without repeats."""
    lines = file.read_text().splitlines() if file.exists() else []
    return sorted({Untargeted(f, c, tuple(names), refused) for f, c, names, refused in map(json.loads, lines)})
