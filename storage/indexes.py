"""All indexes, by collection."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pymongo import IndexModel
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from domain.schema import SchemaMark
from storage import (
    audit,
    dead_letters_replays,
    mails,
    moderation_rules,
    objects,
    outbox,
    outcomes,
    parking,
    planned_approvals,
    review_tokens,
    sessions,
    templates,
    unique_keys,
)
from storage.database import Database, Document, is_database_away
from storage.feedback import reports as feedback_reports
from storage.feedback import votes as feedback_votes
from storage.images import repository as images
from storage.orders import repository as orders
from storage.privacy import erasures as privacy_erasures
from storage.ratings import objects as ratings_objects
from storage.ratings import repository as ratings
from storage.returns import parking as returns_parking
from storage.returns import repository as returns
from storage.reviews import queue as reviews_queue
from storage.reviews import repository as reviews
from storage.schema import SchemaMarks

_EXPIRY: Final = "expireAfterSeconds"
_OPTIONS: Final = ("unique", "sparse", _EXPIRY, "partialFilterExpression")
_REPLACEMENT_SUFFIX: Final = "~"
"""The suffix of an index that replaces one of the same name: MongoDB doesn't allow two with one name."""

_UNAUTHORIZED: Final = 13
_NO_COLLECTION: Final = 26
_INDEX_NOT_FOUND: Final = 27
_MOST_INDEXES: Final = 100
"""More than the 64 that MongoDB allows for a collection."""


class IndexNotMadeError(Exception):
    """An index can't be created because of the documents or indexes of its collection; waiting doesn't help."""


async def ensure_indexes(database: Database, *, remember_days: int) -> None:
    """Create missing indexes, change those that differ, then drop those that were replaced, so that one of both always
    exists. Raises IndexNotMadeError, and the driver's errors while MongoDB is unavailable.

    A process of the previous version that starts during an upgrade replaces an index of the same name by its own: give
    one with other keys another name, and drop the earlier one by `superseded`.
    """
    for collection, models in all_indexes(remember_days).items():
        try:
            await _adapt(database[collection], models)
        except OperationFailure as error:
            if is_database_away(error):
                raise
            # It names the duplicate key: only ids and numbers are unique.
            why = (error.details or {}).get("errmsg", error)
            raise IndexNotMadeError(
                f"Indexes of the collection {collection} can't be created: {why}. Correct its documents or drop the "
                "conflicting index, then run `plaudit init`."
            ) from error
    for collection, names in superseded(await SchemaMarks(database).load()).items():
        await _drop(database[collection], names)


def superseded(mark: SchemaMark) -> dict[str, Collection[str]]:
    """The names of indexes of earlier versions that no version needs on this schema, by collection."""
    unapproved = (reviews_queue.REPLACED_INDEX,) if mark.has_queue else ()
    return {
        returns.COLLECTION: returns.SUPERSEDED,
        reviews.COLLECTION: unapproved,
    }


async def finished_indexes(collection: AsyncCollection[Document]) -> dict[str, Document]:
    """The indexes by name, without those that are still being built."""
    return (await _listed(collection))[0]


async def _listed(collection: AsyncCollection[Document]) -> tuple[dict[str, Document], dict[str, Document]]:
    """The finished indexes by name, and those that are still being built: to create one of these again waits for it."""
    listing: Document = {"listIndexes": collection.name, "cursor": {"batchSize": _MOST_INDEXES}}
    try:
        found = await collection.database.command({**listing, "includeBuildUUIDs": True})
    except OperationFailure as error:
        if error.code != _NO_COLLECTION:
            raise
        return {}, {}
    finished, unfinished = dict[str, Document](), dict[str, Document]()
    for each in found["cursor"]["firstBatch"]:
        index = each.get("spec", each)
        names = unfinished if "buildUUID" in each else finished
        names[index["name"]] = {**index, "key": list(index["key"].items())}
    return finished, unfinished


def replaced_indexes(there: Mapping[str, Mapping[str, Any]], model: IndexModel) -> list[str]:
    """The names of indexes that an index as wanted has replaced, and that are left if that was interrupted."""
    if not any(is_as_wanted(found, model) for found in there.values()):
        return []
    name = model.document["name"]
    pair = (name, f"{name}{_REPLACEMENT_SUFFIX}")
    return [each for each in pair if each in there and not is_as_wanted(there[each], model)]


async def _adapt(collection: AsyncCollection[Document], wanted: Sequence[IndexModel]) -> None:
    finished, unfinished = await _listed(collection)
    there = {**finished, **unfinished}
    to_create, to_drop = list[IndexModel](), list[str]()
    for model in wanted:
        if any(is_as_wanted(found, model) for found in finished.values()):
            to_drop += replaced_indexes(finished, model)
            continue
        if awaited := next((name for name, found in unfinished.items() if is_as_wanted(found, model)), None):
            to_create.append(_named(model, awaited))
            continue
        name = model.document["name"]
        # It may itself have replaced an index before.
        current_name = name if name in there else f"{name}{_REPLACEMENT_SUFFIX}"
        found = there.get(current_name)
        if found is None:
            to_create.append(model)
        elif _differs_in_expiry(found, model):
            await _set_expiry(collection, current_name, model.document[_EXPIRY])
        else:
            to_create.append(_named(model, f"{name}{_REPLACEMENT_SUFFIX}" if current_name == name else name))
            to_drop.append(current_name)
    if to_create:
        await collection.create_indexes(to_create)
    await _drop(collection, to_drop)


def is_as_wanted(found: Mapping[str, Any], model: IndexModel) -> bool:
    """True if an index has these keys and options, whatever its name."""
    is_like = all(found.get(option) == model.document.get(option) for option in _OPTIONS)
    return is_like and list(found["key"]) == list(model.document["key"].items())


def _differs_in_expiry(found: Document, model: IndexModel) -> bool:
    """True if the time after which documents are removed is all that has to be changed in an index."""
    return _EXPIRY in model.document and is_as_wanted({**found, _EXPIRY: model.document[_EXPIRY]}, model)


def _named(model: IndexModel, name: str) -> IndexModel:
    options = {option: model.document[option] for option in _OPTIONS if option in model.document}
    return IndexModel(list(model.document["key"].items()), name=name, **options)


async def _set_expiry(collection: AsyncCollection[Document], name: str, seconds: int) -> None:
    change = {"name": name, _EXPIRY: seconds}
    try:
        await collection.database.command("collMod", collection.name, index=change)
    except OperationFailure as error:
        if error.code != _UNAUTHORIZED:  # the facade may not, and leaves it to the worker
            raise


async def _drop(collection: AsyncCollection[Document], unwanted: Collection[str]) -> None:
    """Drop those of these indexes that exist.

    The facade has no right to, and writes nothing that these indexes hinder: it leaves them to the worker.
    """
    if not unwanted:
        return
    for name in (await collection.index_information()).keys() & set(unwanted):
        try:
            await collection.drop_index(name)
        except OperationFailure as error:
            # Several processes start at once, and another one may have been first.
            if error.code not in (_INDEX_NOT_FOUND, _UNAUTHORIZED):
                raise


def all_indexes(remember_days: int) -> dict[str, list[IndexModel]]:
    """All indexes that the service needs. Effects are remembered for `remember_days`: longer than Kafka keeps the
    records, so that none takes effect again."""
    return {
        reviews.COLLECTION: reviews.INDEXES,
        ratings.COLLECTION: [*ratings.INDEXES, *ratings_objects.INDEXES],
        parking.COLLECTION: parking.INDEXES,
        parking.VERDICTS_COLLECTION: parking.VERDICTS_INDEXES,
        moderation_rules.TEXTS: moderation_rules.TEXT_INDEXES,
        planned_approvals.COLLECTION: planned_approvals.INDEXES,
        outcomes.COLLECTION: outcomes.INDEXES,
        outbox.COLLECTION: outbox.INDEXES,
        orders.COLLECTION: orders.INDEXES,
        returns.COLLECTION: returns.indexes(remember_days),
        returns_parking.COLLECTION: returns_parking.INDEXES,
        mails.COLLECTION: mails.indexes(remember_days),
        dead_letters_replays.COLLECTION: dead_letters_replays.indexes(remember_days),
        sessions.COLLECTION: sessions.INDEXES,
        templates.COLLECTION: templates.indexes(remember_days),
        audit.COLLECTION: audit.INDEXES,
        unique_keys.COLLECTION: unique_keys.INDEXES,
        feedback_reports.COLLECTION: feedback_reports.INDEXES,
        feedback_votes.COLLECTION: feedback_votes.indexes(remember_days),
        images.COLLECTION: images.INDEXES,
        objects.COLLECTION: objects.INDEXES,
        review_tokens.COLLECTION: review_tokens.INDEXES,
        privacy_erasures.ERASURES: privacy_erasures.INDEXES,
        privacy_erasures.LETTERS: privacy_erasures.letter_indexes(remember_days),
    }
