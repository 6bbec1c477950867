"""Checks of MongoDB: is it set up as the service needs it, and is any work overdue?"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from domain.findings import Finding, failed, ok, warn
from domain.quantities import listed, quantity
from domain.schema import NEWEST, Compatibility, compatibility, refusal
from messaging.templates.rendering import TemplateError, check, in_template_thread
from storage import outbox, parking
from storage.backlog import PARKED
from storage.database import Database
from storage.durability import is_router
from storage.indexes import all_indexes, finished_indexes, is_as_wanted, replaced_indexes, superseded
from storage.leases import REMINDERS, LeaseRepository
from storage.mending import SHAPES, Mender
from storage.returns import parking as returns_parking
from storage.reviews.changes import RelayProgress
from storage.schema import SchemaMarks
from storage.shapes import READ_ERRORS
from storage.stores import StoreRepository
from storage.templates import SavedTemplate, TemplateRepository, TemplateSearch
from storage.topics_growth import GrowthRepository

_CLOCK_WARN_S: Final = 2.0
_CLOCK_FAIL_S: Final = 60.0
_PARKED_LIMIT: Final = timedelta(hours=1, minutes=5)
_OWED_LIMIT: Final = timedelta(minutes=2)
_MOST_SHOWN: Final = 5
_WRITES: Final = ("insert", "update", "remove")
_MOST_COUNTED: Final = 100_000
_MOST_READ: Final = 5_000
_PARKED_CHECKS: Final = {
    parking.COLLECTION: parking.check_command,
    parking.VERDICTS_COLLECTION: parking.check_verdict,
    returns_parking.COLLECTION: returns_parking.check_return,
}
"""Checks of parked documents by collection."""
_PATIENCE_MS: Final = 2_000
_PATIENCE_IN_ALL_MS: Final = 6_000


async def check_mongo(database: Database, remember_days: int) -> AsyncIterator[Finding]:
    """All findings about MongoDB. `remember_days` is the number of days for which ids are remembered. Raises the
    driver's errors if MongoDB is unavailable."""
    begin, asked = time.monotonic(), datetime.now(UTC)
    hello = await database.command("hello")
    yield ok("mongodb", "answers")
    yield _replica_set(hello)
    # The server read its clock at some time within the round trip.
    middle = asked + timedelta(seconds=(time.monotonic() - begin) / 2)
    yield _clock((hello["localTime"].replace(tzinfo=UTC) - middle).total_seconds())
    yield await _schema(database)
    async for finding in _indexes(database, remember_days):
        yield finding
    yield await _waiting(database)
    yield await _overdue_outbox(database)
    yield await _templates(database)
    yield await _reminders(database)
    yield await _growth(database)
    if damaged := await _damaged_stores(database):
        yield damaged
    if restored := await _missing_reviews(database):
        yield restored


def _replica_set(hello: dict[str, Any]) -> Finding:
    if "setName" not in hello and not is_router(hello):
        return failed(
            "replica set", "a standalone server, without transactions", "Start mongod with --replSet and initiate it."
        )
    members = len(hello.get("hosts", ()))
    return ok("replica set", f"{hello['setName']} of {members}" if "setName" in hello else "a sharded cluster")


def _clock(ahead_s: float) -> Finding:
    text = f"MongoDB's clock is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's"
    advice = "Synchronise both with a time server (chrony, systemd-timesyncd): leases and expiry depend on the clocks."
    if abs(ahead_s) >= _CLOCK_FAIL_S:
        return failed("clock", text, advice)
    return warn("clock", text, advice) if abs(ahead_s) >= _CLOCK_WARN_S else ok("clock", text)


async def _indexes(database: Database, remember_days: int) -> AsyncIterator[Finding]:
    missing: list[str] = []
    different: list[str] = []
    obsolete_found: list[str] = []
    count = 0
    obsolete = superseded(await SchemaMarks(database).load())
    for collection, models in all_indexes(remember_days).items():
        there = await finished_indexes(database[collection])
        obsolete_found += [f"{collection}.{name}" for name in obsolete.get(collection, ()) if name in there]
        for model in models:
            count += 1
            name = f"{collection}.{model.document['name']}"
            obsolete_found += [f"{collection}.{each}" for each in replaced_indexes(there, model)]
            if any(is_as_wanted(found, model) for found in there.values()):
                continue
            (different if model.document["name"] in there else missing).append(name)
    if missing:
        yield failed("indexes", f"missing {', '.join(missing)}", "`plaudit init` creates them.")
    if different:
        yield failed(
            "indexes", f"different from their definition: {', '.join(different)}", "`plaudit init` changes them."
        )
    if obsolete_found:
        advice = "`plaudit init` drops them if its user may (`readWrite`)."
        yield warn("indexes", f"obsolete, from an earlier version: {', '.join(obsolete_found)}", advice)
    if not missing and not different and not obsolete_found:
        yield ok("indexes", f"all {count} exist")


async def _schema(database: Database) -> Finding:
    mark = await SchemaMarks(database).load()
    text = f"version {mark.version}; this release has {NEWEST}"
    match compatibility(mark):
        case Compatibility.NEWEST:
            return ok("schema", f"version {mark.version}, the newest that this release knows")
        case Compatibility.AHEAD:
            return ok("schema", f"{text}, and can run on it")
        case Compatibility.BEHIND:
            return warn("schema", text, "`plaudit migrate` makes the missing step while the service runs.")
        case Compatibility.TOO_OLD | Compatibility.TOO_NEW:
            return failed("schema", text, refusal(mark) or "")


async def check_documents(database: Database) -> Finding:
    """Documents with missing or damaged fields, as far as found within seconds: MongoDB has to scan all of them."""
    found, uncounted = list[str](), list[str]()
    end = time.monotonic() + _PATIENCE_IN_ALL_MS / 1_000
    for name in SHAPES:
        # MongoDB takes 0 for no limit.
        patience_ms = max(1, min(_PATIENCE_MS, int((end - time.monotonic()) * 1_000)))
        count = await Mender(database, name).count(most=_MOST_COUNTED, patience_ms=patience_ms)
        if count is None:
            uncounted.append(name)
        elif count:
            found.append(f"{name} {'at least ' if count == _MOST_COUNTED else ''}{count:,}")
    if found:
        text = f"fields are missing or damaged: {', '.join(found)}"
        return failed("documents", text, "`plaudit migrate` repairs them.")
    if uncounted:
        advice = "`plaudit migrate --dry-run` checks all of them."
        return ok("documents", f"too many to check quickly: {', '.join(uncounted)}. {advice}")
    return ok("documents", "no fields are missing")


async def check_parked(database: Database) -> Finding | None:
    """A finding on parked commands that can't be read, among the first ones parked, as many as are read in time; None
    without any."""
    damaged = list[str]()
    with suppress(TimeoutError):  # many large ones wait, for example during an import
        async with asyncio.timeout(_PATIENCE_MS / 1_000):
            for name, check_document in _PARKED_CHECKS.items():
                async for document in database[name].find({}).sort("parkedAt").limit(_MOST_READ):
                    try:
                        check_document(document)
                    except READ_ERRORS:
                        damaged.append(f"{name} {document['_id']}")
    if not damaged:
        return None
    text = f"{quantity(len(damaged), 'document')} can't be read: {listed(damaged, _MOST_SHOWN)}"
    advice = "They wait until they are repaired, for example from a backup: the logs of the workers name the faults."
    return failed("parked commands", text, advice)


async def _damaged_stores(database: Database) -> Finding | None:
    """A finding on stores that can't be read, among as many as are read in time; None without any."""
    end, damaged = time.monotonic() + _PATIENCE_MS / 1_000, list[str]()
    async with aclosing(StoreRepository(database).each_is_damaged()) as stores:
        async for id, is_damaged in stores:
            if is_damaged:
                damaged.append(id)
            if time.monotonic() >= end:
                break
    if not damaged:
        return None
    text = f"{quantity(len(damaged), 'store')} can't be read: {listed(damaged, _MOST_SHOWN)}"
    return failed("stores", text, "Repair them by hand or from a backup: nobody knows the settings that they lost.")


async def _missing_reviews(database: Database) -> Finding | None:
    """A finding on reviews that were stored and published, and are unknown now; None without any."""
    if not (missing := (await RelayProgress(database).load()).missing):
        return None
    text = f"MongoDB is older than Kafka. Reviews that were stored are missing: {listed(missing, _MOST_SHOWN)}"
    advice = (
        "Workers that read again from before the backup store them, and this ends. Otherwise commands that had taken "
        'effect are lost: stop all processes and set the offsets of the consumer groups back (docs/operations.md, "If '
        'MongoDB is older than Kafka").'
    )
    return failed("restore", text, advice)


async def check_rights(database: Database) -> Finding:
    """A finding on the rights of the connection's user: without the right to write, a process waits for it."""
    info = (await database.command("connectionStatus", showPrivileges=True))["authInfo"]
    if not info["authenticatedUsers"]:
        return ok("rights", "MongoDB requires no login")
    allowed, allowed_in_collections = set[str](), set[str]()
    for privilege in info["authenticatedUserPrivileges"]:
        resource = privilege["resource"]
        db, collection = resource.get("db"), resource.get("collection")
        if resource.get("anyResource") or (db in ("", database.name) and collection == ""):
            allowed |= set(privilege["actions"])
        elif db == database.name and collection and not collection.startswith("system."):
            allowed_in_collections |= set(privilege["actions"])
    missing = [action for action in _WRITES if action not in allowed]
    if missing and allowed_in_collections.issuperset(missing):
        return ok("rights", "are granted per collection, and not checked")
    if missing:
        advice = (
            "That is enough for the API only. Workers, scheduler, mailer and tools need `readWrite` on the database."
        )
        return warn("rights", f"the user may not {', '.join(missing)} in the database {database.name}", advice)
    return ok("rights", "the user may read and write")


async def _reminders(database: Database) -> Finding:
    if not (await StoreRepository(database).general()).reminder.enabled:
        return ok("reminders", "are disabled")
    if await LeaseRepository(database).is_held(REMINDERS):
        return ok("reminders", "a scheduler is active")
    return warn("reminders", "no scheduler is running, so no reminders are sent", "Start `plaudit scheduler`.")


async def _growth(database: Database) -> Finding:
    growing = {topic: each for topic, each in (await GrowthRepository(database).all()).items() if each.to}
    if not growing:
        return ok("growth", "no topic is growing")
    count = max(each.to or 0 for each in growing.values())
    text = f"growing to {count} partitions, and waiting for earlier records: {', '.join(sorted(growing))}"
    return warn("growth", text, f"`plaudit topics grow {count}` continues it if it was interrupted.")


async def _waiting(database: Database) -> Finding:
    old = datetime.now(UTC) - _PARKED_LIMIT
    counts = [
        (await database[name].count_documents({}), await database[name].count_documents({"parkedAt": {"$lt": old}}))
        for name in PARKED.values()
    ]
    parked, overdue = (sum(pair) for pair in zip(*counts, strict=True))
    if overdue:
        advice = (
            "They wait as long as unread records may contain their subjects, for example behind an import. Without "
            "such records a worker should have given them up: check that one is running, and its log."
        )
        return warn("parked commands", f"{overdue} overdue", advice)
    return ok("parked commands", f"{parked} waiting for their subjects")


async def _overdue_outbox(database: Database) -> Finding:
    old = datetime.now(UTC) - _OWED_LIMIT
    owed = await database[outbox.COLLECTION].count_documents({"at": {"$lt": old}})
    if owed:
        advice = "No worker publishes them: check that one is running and reaches Kafka; see its log."
        batches = quantity(owed, "batch of events", "batches of events")
        return warn("outbox", f"{batches} waiting to be published for more than two minutes", advice)
    return ok("outbox", "no batch of events is overdue")


async def _templates(database: Database) -> Finding:
    end, count, is_whole, errors = time.monotonic() + _PATIENCE_MS / 1_000, 0, True, list[str]()
    async with aclosing(TemplateRepository(database).each(TemplateSearch())) as saved:
        async for template in saved:
            if count and time.monotonic() >= end:
                is_whole = False
                break
            count += 1
            if error := await in_template_thread(_template_error, template):
                errors.append(error)
    if errors:
        more = f"; and {len(errors) - _MOST_SHOWN} more" if len(errors) > _MOST_SHOWN else ""
        advice = "The next best template is used for their mails. Save them again, in Liquid (docs/http.md)."
        return warn("templates", f"can't be used: {'; '.join(errors[:_MOST_SHOWN])}{more}", advice)
    if not is_whole:
        return ok("templates", f"too many to check quickly; the first {count} can be used")
    return ok("templates", f"{count} saved; all can be used")


def _template_error(saved: SavedTemplate) -> str:
    """The error of a template; empty if it has none."""
    try:
        check(saved.template)
    except TemplateError as error:
        return f"{saved.id} ({error})"
    return ""
