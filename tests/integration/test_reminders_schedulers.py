"""Concurrent schedulers, killed at random moments, and the clock that they follow."""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import eq, le
from typing import Any

import pytest

from domain.orders import after_event
from messaging.kafka.administration import admin_client
from messaging.orders import order_event
from messaging.topics import TopicLayout, TopicNames, create_topics
from plaudit.config import Settings
from scheduler.clock import ReminderClock
from storage.database import Database, abort_abandoned, in_transaction
from storage.indexes import ensure_indexes
from storage.leases import CLOCK_SKEW, REMINDERS, LeaseRepository
from storage.orders.repository import OrderRepository
from storage.pymongo_internals import cancel_and_wait
from storage.stores import StoreRepository
from tests.support.facade import new_id
from tests.support.reminder_processes import start_clock, start_run
from tests.support.reminders import DAY, NOON, connected_job, connection, order_with_products
from tests.support.service import PARTITIONS, Json, Servers, Service
from tests.support.waiting import eventually

KILLS = int(os.environ.get("PLAUDIT_TEST_KILLS", "6"))
"""Schedulers to kill; 200 to verify the project's promise."""

ORDERS = int(os.environ.get("PLAUDIT_TEST_ORDERS", "2000"))
CUSTOMERS = ORDERS * 2 // 5
LIMIT = 2
LEASE_S = 1.0
AGAIN_S = 15.0
"""Seconds that a cancelled clock may take to release its lease."""


@pytest.fixture(scope="module")
async def empty(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Service, Database]]:
    """Topics and a database, without running processes."""
    service = Service(servers, tmp_path_factory.mktemp("schedulers"))
    async with admin_client(connection(service)) as admin:
        await create_topics(admin, TopicNames(service.prefix), TopicLayout(PARTITIONS), {})
    async with connected_job(service) as (database, _):
        await ensure_indexes(database, remember_days=Settings().remember_days)
        yield service, database


async def many_orders(database: Database, since: datetime) -> Counter[str]:
    """Store orders of several customers, all complete since then; returns the number of orders by customer."""
    series = new_id("customer")
    given = [order_with_products("Complete", f"{series}-{n % CUSTOMERS}", None, since, "camera") for n in range(ORDERS)]
    orders = []
    for body in (json.dumps(order).encode() for order in given):
        event, digest = order_event(body)
        orders.append(after_event(None, event.order(body, since), digest))
    await in_transaction(database, partial(OrderRepository(database).save, orders))
    return Counter(order["customerId"] for order in given)


async def configure(database: Database, **reminder: Any) -> None:
    fields = {f"reminder.{name}": value for name, value in {"enabled": True, **reminder}.items()}
    await database["settings"].update_one({"_id": "general"}, {"$set": fields}, upsert=True)


async def assert_all_sent_once(service: Service, database: Database, bought: Counter[str]) -> None:
    """Assert that every customer got a mail for each order up to the limit; repeated messages share an id."""
    expected = {customer: min(count, LIMIT) for customer, count in bought.items()}
    sent: dict[str, Json] = {mail["id"]: mail for mail in await service.values("mail-commands")}
    assert Counter(mail["customerId"] for mail in sent.values()) == expected
    assert max(Counter(mail["orderId"] for mail in sent.values()).values()) == 1
    assert {d["_id"]: d["sent"] async for d in database["reminderCustomers"].find()} == expected


@pytest.mark.long
@pytest.mark.scaled
async def test_schedulers_killed_at_random_moments(empty: tuple[Service, Database]) -> None:
    service, database = empty
    await configure(database)
    chance = random.Random(4)
    now = NOON + 10 * DAY

    async def kill_run() -> bool:
        process, is_ready = start_run(service, now)
        await asyncio.to_thread(is_ready.wait, 60)
        await asyncio.sleep(chance.uniform(0, 0.5))
        was_alive = process.is_alive()
        process.kill()
        await asyncio.to_thread(process.join)
        return was_alive

    async def is_work_left() -> bool:
        waiting = {"reminder.sent": 0, "reminder.toCustomer": {"$lt": LIMIT}}
        return await database["orders"].find_one(waiting) is not None

    bought: Counter[str] = Counter()
    kills = 0
    while kills < KILLS:
        bought += await many_orders(database, NOON)
        while kills < KILLS and await is_work_left():
            kills += sum(await asyncio.gather(kill_run(), kill_run()))
            # Workers do this, with a longer timeout.
            await abort_abandoned(database, timedelta(seconds=0.1))
    # The remaining work is done by a live job, which also publishes their overdue messages.
    async with connected_job(service) as (_, job):

        async def still_owed() -> int:
            """Return the number of unpublished messages after a run: MongoDB may commit a transaction of a killed
            process a moment later."""
            await database["outbox"].update_many({}, {"$set": {"at": NOON}})
            await job.run(now)
            return await database["outbox"].count_documents({})

        await eventually(still_owed, lambda count: count == 0)
        assert (await job.run(now)).orders == 0
    await assert_all_sent_once(service, database, bought)


@pytest.mark.slow
async def test_another_scheduler_takes_over(empty: tuple[Service, Database]) -> None:
    service, database = empty
    leases, orders = database["leases"], database["orders"]
    await asyncio.gather(orders.delete_many({}), leases.delete_many({}))
    bought = await many_orders(database, datetime.now(UTC) - 10 * DAY)
    await configure(database, cron="* * * * *")
    # A run is overdue, so that the test need not wait for the next full minute.
    past = datetime.now(UTC) - timedelta(minutes=5)
    await leases.insert_one({"_id": REMINDERS, "done": past, "scheduled": past, "cron": "* * * * *"})
    processes = {str(process.pid): process for process in (start_clock(service, LEASE_S) for _ in range(3))}
    killed: list[str] = []

    async def at_work() -> str | None:
        lease = await leases.find_one({"_id": REMINDERS}) or {}
        found: str | None = lease.get("holder")
        return None if found in killed else found

    async def sent() -> int:
        # As workers do: a killed scheduler may leave orders locked for a minute.
        await abort_abandoned(database, timedelta(seconds=2))
        return await orders.count_documents({"reminder.sent": 1})

    try:
        for least in (1, 600):
            holder = await eventually(at_work, pause_s=0.03)
            await eventually(sent, partial(le, least), pause_s=0.03)
            processes[holder or ""].kill()
            killed.append(holder or "")
        expected = sum(min(count, LIMIT) for count in bought.values())
        assert await sent() < expected
        await eventually(sent, partial(eq, expected))
    finally:
        for process in processes.values():
            process.kill()
            process.join()


@pytest.mark.long
async def test_clock_follows_settings(empty: tuple[Service, Database]) -> None:
    service, database = empty
    async with connected_job(service) as (_, job):
        stores, leases = StoreRepository(database), LeaseRepository(database)
        # It is held so long that it never expires on a busy machine.
        of_each = {"a": LEASE_S, "b": 600.0, "c": LEASE_S}
        clock, long, other = (ReminderClock(job, stores, leases, holder=n, lease_s=s) for n, s in of_each.items())
        await leases.take(REMINDERS, "nobody", 0)
        keeping = asyncio.create_task(clock.keep())

        def planned(by: ReminderClock = clock) -> tuple[int, int] | None:
            return (by.next_run.hour, by.next_run.minute) if by.next_run else None

        for cron, expected in (("5 4 * * *", (4, 5)), ("6 5 * * *", (5, 6)), ("nonsense", (5, 6))):
            await configure(database, cron=cron)
            await eventually(planned, partial(eq, expected))
        await configure(database, enabled=False)
        await eventually(planned, lambda found: found is None)
        await configure(database, cron="7 6 * * *")
        await eventually(planned, lambda found: found == (6, 7))
        await cancel_and_wait(keeping, again_s=AGAIN_S)

        keeping = asyncio.create_task(long.keep())
        await eventually(partial(planned, long), lambda found: found == (6, 7))
        waiting = asyncio.create_task(other.keep())
        await asyncio.sleep(3 * LEASE_S / 10)  # long enough to take over, which it must not
        assert other.next_run is None
        await cancel_and_wait(keeping, again_s=AGAIN_S)
        assert (await database["leases"].find_one({"_id": REMINDERS}) or {}).get("holder") != "b"
        await eventually(lambda: other.next_run is not None)
        await cancel_and_wait(waiting, again_s=AGAIN_S)


async def test_leases(empty: tuple[Service, Database]) -> None:
    leases = LeaseRepository(empty[1])
    taken = await asyncio.gather(*(leases.take("job", str(n), 600) for n in range(10)))
    (hold,) = [hold for hold in taken if hold is not None]
    holder = str(taken.index(hold))
    assert hold.is_new
    assert await leases.take("job", "other", 600) is None
    await leases.release("job", "other")
    assert await leases.take("job", "other", 600) is None
    renewed = await leases.take("job", holder, 0.2)
    assert renewed == (False, hold.done, None, None)
    assert (await eventually(lambda: leases.take("job", "other", 600))) == (True, hold.done, None, None)
    assert await leases.take("job", holder, 600) is None
    moment = hold.done + timedelta(milliseconds=1)
    await leases.note_done("job", moment)
    await leases.note_done("job", hold.done)
    await leases.note_schedule("job", "5 4 * * *")
    await leases.release("job", "other")
    schedule = await leases.schedule("job")
    assert schedule is not None
    assert await leases.take("job", holder, 600) == (True, moment, "5 4 * * *", schedule.since)
    # As of a scheduler whose clock is ahead, or of an earlier version.
    await empty[1]["leases"].update_one({"_id": "job"}, {"$set": {"done": moment + 20 * DAY}})
    await leases.note_done("job", moment + 10 * DAY)
    done = await leases.schedule("job")
    assert done is not None
    assert moment <= done.done <= await leases.now() + CLOCK_SKEW


async def test_process_releases_lease_when_stopped(empty: tuple[Service, Database]) -> None:
    service, database = empty
    await database["leases"].delete_many({})
    service.start("scheduler")

    async def holder() -> object:
        return (await database["leases"].find_one({"_id": REMINDERS}) or {}).get("holder")

    await eventually(holder)
    assert await service.stop("scheduler") == 0
    assert await holder() is None
    assert "scheduler stopped" in service.log("scheduler")
