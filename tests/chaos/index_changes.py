"""Faults of settings and indexes: what the service relies on is changed under load, and `plaudit init` mends it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from storage.indexes import all_indexes, is_as_wanted
from tests.chaos.faults import Fault, Stage

RETENTION = "PLAUDIT_KAFKA__RETENTION_DAYS"
DAYS = range(3, 31)
_AGE = "expireAfterSeconds"
_BRIDGE = "bridge"
_ADAPTED_MEANWHILE = (27, 85, 86)
"""IndexNotFound, IndexOptionsConflict, IndexKeySpecsConflict."""


async def change_settings(stage: Stage) -> None:
    """Another retention, which every TTL of what is remembered follows: `plaudit init`, then each process in turn."""
    fleet, environment = stage.fleet, stage.fleet.service.environment
    environment[RETENTION] = str(stage.chance.choice([days for days in DAYS if days != _days(environment)]))
    await fleet.run(fleet.this, "init")
    for name in sorted(fleet.processes):
        await fleet.stop(name, in_time=False)
        fleet.start(name)
        await stage.a_while(0.0, 1.0)
    await fleet.until_ready()
    if not fleet.is_this_version:  # an earlier one has other indexes, and makes them when it starts
        await fleet.run(fleet.this, "init")
    await check_indexes(stage)


async def change_indexes(stage: Stage) -> None:
    """Somebody gives the name of each index to another one, by hand, and each TTL another age."""
    async with stage.fleet.service.mongo() as database:
        changes = [_change(database[collection], models, stage) for collection, models in _wanted(stage).items()]
        await asyncio.gather(*changes)
    await stage.fleet.run(stage.fleet.this, "init")
    await check_indexes(stage)


async def check_indexes(stage: Stage) -> None:
    """Raises AssertionError unless each index is there once, as this version wants it with its settings."""
    async with stage.fleet.service.mongo() as database:
        for collection, models in _wanted(stage).items():
            there = await database[collection].index_information()
            for model in models:
                like = [name for name, found in there.items() if is_as_wanted(found, model)]
                assert len(like) == 1, f"{collection} has {there}, expected one like {model.document}"


def _wanted(stage: Stage) -> dict[str, list[IndexModel]]:
    return all_indexes(2 * _days(stage.fleet.service.environment) + 7)


def _days(environment: Mapping[str, str]) -> int:
    return int(environment.get(RETENTION, "7"))


async def _change(collection: AsyncCollection[dict[str, Any]], models: Sequence[IndexModel], stage: Stage) -> None:
    """Replace all indexes of a collection by others of their names, some of them for the time being by a third one, so
    that what is unique stays so."""
    there = await collection.index_information()
    names = {name for name in there if name not in ("_id_", _BRIDGE)}
    others = [_other(model, there, stage) for model in models]
    bridges = [_bridge(model) for model in models if model.document.get("unique")]
    try:
        if bridges:
            await collection.create_indexes(bridges)
        await collection.database.command("dropIndexes", collection.name, index=sorted(names))
        await collection.create_indexes(others)
        if bridges:
            await collection.drop_index(_BRIDGE)
    except OperationFailure as error:
        # A process that starts at this moment adapts them already.
        if error.code not in _ADAPTED_MEANWHILE:
            raise


def _other(model: IndexModel, there: Mapping[str, Any], stage: Stage) -> IndexModel:
    """An index of the same name that goes the other way, or a TTL of another age."""
    name = next((name for name, found in there.items() if is_as_wanted(found, model)), model.document["name"])
    keys, options = _parts(model)
    if _AGE in options and stage.chance.random() < 0.5:
        options[_AGE] *= stage.chance.choice([2, 3])
        return IndexModel(keys, name=name, **options)
    return IndexModel([(field, -direction) for field, direction in keys], name=name, **options)


def _bridge(model: IndexModel) -> IndexModel:
    """An index as unique as this one, that is neither it nor its other."""
    (first, *rest), options = _parts(model)
    return IndexModel([first, *((field, -direction) for field, direction in rest)], name=_BRIDGE, **options)


def _parts(model: IndexModel) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    options = {key: value for key, value in model.document.items() if key not in ("key", "name")}
    return list(model.document["key"].items()), options


INDEX_CHANGES: dict[str, Fault] = {"settings-changed": change_settings, "indexes-changed": change_indexes}
