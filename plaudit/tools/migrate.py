"""`plaudit migrate`: makes the steps to the newest schema, and mends documents that have lost fields."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypedDict

from rich.console import Console

from consumers.ratings import rating_events, recount
from consumers.services import Services
from domain.delivery import in_parts
from domain.quantities import quantity
from domain.ratings import ChangedTally, TallyKey
from domain.reviews import Review
from domain.schema import (
    Compatibility,
    SchemaMark,
    Step,
    compatibility,
    mark_when_begun,
    mark_when_done,
    missing_steps,
    refusal,
)
from messaging.kafka.administration import admin_client, partitions_of
from messaging.kafka.topic_reader import TopicReader
from messaging.reviews_state import review_of_state
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.processes.connections import connected
from plaudit.processes.waiting import patiently
from plaudit.terminal import Terminal, shown
from plaudit.tools.migration_lease import MigrationLease, migration_lease
from plaudit.tools.servers import check_database, check_topics
from storage.database import Database
from storage.id_ranges import SIZE
from storage.images.files import files_in_memory
from storage.mending import SHAPES, Id, Mended, Mender
from storage.migrations import WORK, StepWork
from storage.schema import SchemaMarks, SchemaRefusedError, StepProgress
from storage.unit_of_work import UnitOfWork

_PAUSE_S: Final = 0.02
"""Seconds between slices, to leave capacity to the running service."""

_PAGE: Final = 2_000
"""Number of damaged documents to collect before mending: each round reads the whole topic of reviews."""

_SLICE: Final = 100
_MOST_LOST: Final = 1_000


class StepReport(TypedDict):
    """A step that was made, or would be, and the number of documents it changes."""

    number: int
    sentence: str
    documents: int


class LostFields(TypedDict):
    """A document, and the names of its fields that can't be restored."""

    id: str
    fields: list[str]


class MendingReport(TypedDict):
    """The damaged documents of a collection: `restored` from other data, `filled` with defaults."""

    collection: str
    damaged: int
    restored: int
    filled: int
    lostCount: int
    lost: list[LostFields]


class MigrationReport(TypedDict):
    """A migration, with the schema before and after it; for a dry run, the changes it would make."""

    dryRun: bool
    schemaBefore: int
    schema: int
    steps: list[StepReport]
    documents: list[MendingReport]


@dataclass(slots=True)
class Migration:
    """One run. The next run continues one that was cut short: steps record their progress, mended documents stay so."""

    settings: Settings
    database: Database
    services: Services
    progress: Console
    lease: MigrationLease

    @property
    def marks(self) -> SchemaMarks:
        """The schema mark of the database."""
        return SchemaMarks(self.database)

    async def make(self, step: Step) -> StepReport:
        """Make a step, from its recorded progress on."""
        mark, work = await self.marks.load(), _work(step, self.database)
        await self.marks.save(mark_when_begun(mark, step))
        state = await self.marks.progress(step.number)
        while work and (part := await work.slice(state.after)):
            for entity in part.entities:
                await recount(self.services, entity)
            state = StepProgress(step.number, part.after, state.done + part.documents)
            await self.marks.note(state)
            self.progress.print(f"Step {step.number}: {quantity(state.done, 'document')} done")
            await self._pause()
        await self.marks.save(mark_when_done(mark, step))
        return {"number": step.number, "sentence": step.sentence, "documents": state.done}

    async def mend(self, collection: str) -> MendingReport:
        """Mend the damaged documents of a collection."""
        mender, total, damaged, waiting = Mender(self.database, collection), Mended(), 0, list[Id]()
        async for ids in _damaged_ids(mender, self.progress):
            damaged += len(ids)
            waiting += ids
            if len(waiting) >= _PAGE:
                await self._mend_all(mender, waiting, total)
                waiting = []
            await self._pause()
        await self._mend_all(mender, waiting, total)
        return _mending_report(collection, damaged, total)

    async def _mend_all(self, mender: Mender, ids: Sequence[Id], total: Mended) -> None:
        known = await self._published_reviews({str(id) for id in ids}) if ids and mender.collection == "reviews" else {}
        for part in in_parts(ids, _SLICE):
            mended = await self.services.transactions.run(partial(self._mend, mender, part, known))
            total.restored, total.filled = total.restored + mended.restored, total.filled + mended.filled
            total.lost |= mended.lost
            self.progress.print(f"{mender.collection}: {quantity(len(part), 'damaged document')} processed")
            await self._pause()

    async def _mend(self, mender: Mender, ids: Sequence[Id], known: dict[str, Review], work: UnitOfWork) -> Mended:
        mended = await mender.mend(ids, known, work.session)
        tallies: dict[TallyKey, ChangedTally] = await work.repositories.ratings.add({}, work.session, mended.entities)
        work.emit(rating_events(self.services, tallies))
        return mended

    async def _published_reviews(self, ids: Collection[str]) -> dict[str, Review]:
        """These reviews from the topic of reviews: their last states before they were damaged."""
        wanted = {id.encode(errors="surrogatepass"): id for id in ids}
        found: dict[str, Review] = {}
        connection = self.settings.kafka_connection()
        async with admin_client(connection) as admin:
            partitions = await partitions_of(admin, [self.settings.topics.name(Topic.REVIEWS)])
        async with TopicReader.open(connection) as reader:
            async for records in reader.batches(partitions):
                await self.lease.keep()
                for record in records:
                    if (id := wanted.get(record.key or b"")) is None:
                        continue
                    found.pop(id, None)
                    if record.value is not None and (review := review_of_state(record.value)):
                        found[id] = review
        return found

    async def _pause(self) -> None:
        await self.lease.keep()
        await asyncio.sleep(_PAUSE_S)


async def migrate(settings: Settings, out: Terminal, progress: Console, *, dry_run: bool, compatible: bool) -> None:
    """Make the missing steps, then mend documents, while the service runs. Waits for MongoDB and another migration.

    `compatible`: only the steps on which the previous version can run. Raises SchemaRefusedError: the database is
    newer. Raises CommandError: the database, or a topic from which documents are mended, is missing, or the lease was
    lost. Raises errors of the drivers: a server goes away meanwhile.
    """
    async with connected(settings) as (database, publisher):
        await check_database(database)
        mark = await patiently("MongoDB", SchemaMarks(database).load)
        if compatibility(mark) is Compatibility.TOO_NEW:
            raise SchemaRefusedError(refusal(mark) or "")
        if dry_run:
            report = await _dry_run(database, mark, progress, compatible=compatible)
        else:
            await check_topics(settings, [settings.topics.name(topic) for topic in (Topic.REVIEWS, Topic.EVENTS)])
            # A migration reads and writes no images.
            services = Services(database, publisher, settings.topics, files_in_memory())
            async with migration_lease(database, progress) as lease:
                run = Migration(settings, database, services, progress, lease)
                missing = missing_steps(await run.marks.load(), compatible=compatible)
                steps = [await run.make(step) for step in missing]
                # Mending scans all documents: in a large database it would add hours to each release.
                documents = [] if compatible else [await run.mend(collection) for collection in SHAPES]
                after = (await run.marks.load()).version
            report = {
                "dryRun": False,
                "schemaBefore": mark.version,
                "schema": after,
                "steps": steps,
                "documents": documents,
            }
    out.set_result(report)
    _print(report, out)


async def _damaged_ids(mender: Mender, progress: Console) -> AsyncIterator[list[Id]]:
    """The ids of damaged documents, a slice at a time; prints the progress."""
    scanned, count = -SIZE, await mender.estimated_count()  # the first slice holds only ids of foreign types
    async for ids in mender.slices():
        yield ids
        scanned += SIZE
        if 0 < scanned < count:
            progress.print(f"{mender.collection}: {scanned:,} of about {count:,} documents checked")


def _work(step: Step, database: Database) -> StepWork | None:
    """The work of a step on a database; None if it changes no document."""
    work = WORK.get(step.number)
    return work and work(database)


async def _count_changes(step: Step, database: Database) -> int:
    work = _work(step, database)
    return await work.count() if work else 0


async def _dry_run(database: Database, mark: SchemaMark, progress: Console, *, compatible: bool) -> MigrationReport:
    missing = missing_steps(mark, compatible=compatible)
    steps: list[StepReport] = [
        {"number": s.number, "sentence": s.sentence, "documents": await _count_changes(s, database)} for s in missing
    ]
    shapes = () if compatible else SHAPES
    damaged = {name: sum([len(ids) async for ids in _damaged_ids(Mender(database, name), progress)]) for name in shapes}
    documents = [_mending_report(name, count, Mended()) for name, count in damaged.items()]
    after = max([mark.version, *(step.number for step in missing)])
    return {"dryRun": True, "schemaBefore": mark.version, "schema": after, "steps": steps, "documents": documents}


def _mending_report(collection: str, damaged: int, mended: Mended) -> MendingReport:
    lost = sorted(mended.lost.items())[:_MOST_LOST]
    return {
        "collection": collection,
        "damaged": damaged,
        "restored": mended.restored,
        "filled": mended.filled,
        "lostCount": len(mended.lost),
        "lost": [{"id": id, "fields": list(fields)} for id, fields in lost],
    }


def _print(report: MigrationReport, out: Terminal) -> None:
    would = "Would change" if report["dryRun"] else "Changed"
    for step in report["steps"]:
        out.print(f"Step {step['number']}: {step['sentence']} {would} {quantity(step['documents'], 'document')}.")
    for each in report["documents"]:
        if not each["damaged"]:
            continue
        out.print(f"{each['collection']}: {quantity(each['damaged'], 'document')} with missing fields.")
        if not report["dryRun"]:
            out.print(f"  {each['restored']:,} restored, {each['filled']:,} given defaults.")
        if each["lostCount"]:
            out.print(f"  {each['lostCount']:,} with fields that can't be restored here: restore these from a backup.")
        for lost in each["lost"]:
            out.print(f"  {shown(lost['id'])}: {', '.join(lost['fields'])}")
    if report["documents"] and not any(each["damaged"] for each in report["documents"]):
        out.print("No document has missing fields.")
    before = f"{report['schemaBefore']} → " if report["steps"] else ""
    out.print(f"Schema {before}{report['schema']}.")
