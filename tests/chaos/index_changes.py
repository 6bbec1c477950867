"""Faults of settings and indexes: both change under load, and `plaudit init` repairs the indexes."""

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
"""Retention periods to choose from."""
_AGE = "expireAfterSeconds"
_BRIDGE = "bridge"
"""Name of an index that keeps values unique while others are replaced."""
_ADAPTED_MEANWHILE = (27, 85, 86)
"""IndexNotFound, IndexOptionsConflict, IndexKeySpecsConflict."""


async def change_settings(stage: Stage) -> None:
    """Change the retention, which all TTL indexes follow: run `plaudit init`, then restart each process."""
    fleet, environment = stage.fleet, stage.fleet.service.environment
    environment[RETENTION] = str(stage.rng.choice([days for days in DAYS if days != _days(environment)]))
    await fleet.run(fleet.this, "init")
    for name in sorted(fleet.processes):
        await fleet.stop(name, in_time=False)
        fleet.start(name)
        await stage.pause(0.0, 1.0)
    await fleet.until_ready()
    if not fleet.is_this_version:  # the version before creates its own indexes at its start
        await fleet.run(fleet.this, "init")
    await check_indexes(stage)


async def change_indexes(stage: Stage) -> None:
    """Replace each index by a different one of the same name, as an operator might by hand, and some TTLs by longer
    ones."""
    async with stage.fleet.service.mongo() as database:
        changes = [_change(database[collection], models, stage) for collection, models in _wanted(stage).items()]
        await asyncio.gather(*changes)
    await stage.fleet.run(stage.fleet.this, "init")
    await check_indexes(stage)


async def check_indexes(stage: Stage) -> None:
    """Raise AssertionError unless each index exists exactly once, as this version wants it with its settings."""
    async with stage.fleet.service.mongo() as database:
        for collection, models in _wanted(stage).items():
            there = await database[collection].index_information()
            for model in models:
                like = [name for name, found in there.items() if is_as_wanted(found, model)]
                assert len(like) == 1, f"{collection} has {there}, expected exactly one like {model.document}"


def _wanted(stage: Stage) -> dict[str, list[IndexModel]]:
    return all_indexes(2 * _days(stage.fleet.service.environment) + 7)


def _days(environment: Mapping[str, str]) -> int:
    return int(environment.get(RETENTION, "7"))


async def _change(collection: AsyncCollection[dict[str, Any]], models: Sequence[IndexModel], stage: Stage) -> None:
    """Replace all indexes of a collection by others of the same names.

    Unique indexes are bridged by a third one meanwhile, so that values stay unique.
    """
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
        # A process that starts at this moment may already be repairing them.
        if error.code not in _ADAPTED_MEANWHILE:
            raise


def _other(model: IndexModel, there: Mapping[str, Any], stage: Stage) -> IndexModel:
    """An index of the same name with the opposite directions, or a TTL index with a longer expiry."""
    name = next((name for name, found in there.items() if is_as_wanted(found, model)), model.document["name"])
    keys, options = _parts(model)
    if _AGE in options and stage.rng.random() < 0.5:
        options[_AGE] *= stage.rng.choice([2, 3])
        return IndexModel(keys, name=name, **options)
    return IndexModel([(field, -direction) for field, direction in keys], name=name, **options)


def _bridge(model: IndexModel) -> IndexModel:
    """An index that is as unique as this one but equal neither to it nor to its replacement."""
    (first, *rest), options = _parts(model)
    return IndexModel([first, *((field, -direction) for field, direction in rest)], name=_BRIDGE, **options)


def _parts(model: IndexModel) -> tuple[list[tuple[str, int]], dict[str, Any]]:
    options = {key: value for key, value in model.document.items() if key not in ("key", "name")}
    return list(model.document["key"].items()), options


INDEX_CHANGES: dict[str, Fault] = {"settings-changed": change_settings, "indexes-changed": change_indexes}
