"""Time and memory of a run of reminders with 10,000 due orders, among different numbers of stored orders.

    .venv/bin/python -m benchmarks.reminders [stored orders ...]

The stored orders that are not due have one of five reasons, in equal parts: another status, too few days in the status,
all products reviewed, the customer's limit reached, or a store that accepts no reviews. The run is a process of
`plaudit reminders run`, including its start. A second run follows, in which nothing is due.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from devservers.broker import embedded_kafka
from devservers.mongo import embedded_mongo
from domain.orders import Customer, Order, OrderLine, ReminderState
from plaudit.config import Settings
from plaudit.processes.waiting import prepare_servers
from storage.database import Database, connect
from storage.orders import COLLECTION, document_of

DUE: Final = 10_000
NOW: Final = datetime(2026, 6, 1, tzinfo=UTC)
LONG_AGO: Final = NOW - timedelta(days=40)
OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: elapsed seconds, seconds of CPU time, peak memory in MiB, and its output."""

    seconds: float
    cpu_seconds: float
    megabytes: float
    output: str


def an_order(number: int) -> Order:
    """An order that is due."""
    customer = f"customer-{number}"
    return Order(
        id=f"order-{number}",
        number=f"CO{number:08d}",
        status="Complete",
        is_cancelled=False,
        store_id=OPEN,
        customer=Customer(customer, "Anna Berg", f"{customer}@example.com"),
        modified=LONG_AGO,
        lines=tuple(
            OrderLine(str(line), f"product-{(number * 3 + line) % 5_000}", "Camera", 1, 9.5) for line in range(3)
        ),
        body=b"{" + b" " * 900 + b"}",
        observations=((LONG_AGO, "Complete"),),
    )


def an_order_not_due(number: int) -> Order:
    """An order that is not due, for one of five reasons by its number."""
    order = an_order(number)
    match number % 5:
        case 0:
            return replace(order, status="Processing", observations=((LONG_AGO, "Processing"),))
        case 1:
            return replace(order, modified=NOW, observations=((NOW, "Complete"),))
        case 2:
            return replace(order, reminders=ReminderState(1, LONG_AGO, is_over=True))
        case 3:
            return replace(order, reminders=ReminderState(1, LONG_AGO, sent_to_customer=2))
        case _:
            return replace(order, store_id=CLOSED)


async def store(database: Database, stored: int) -> None:
    """Store `stored` orders, and one review of another product by every fifth customer."""
    numbers = iter(range(stored))
    while batch := list(islice(numbers, 5_000)):
        orders = [an_order(number) if number < DUE else an_order_not_due(number) for number in batch]
        await database[COLLECTION].insert_many(map(document_of, orders), ordered=False)
        await database["reviews"].insert_many((a_review(number) for number in batch[::5]), ordered=False)
    reviews = {"settings": {"reviewsEnabled": True}}
    await database["stores"].insert_many([{"_id": OPEN, "name": "Open", **reviews}, {"_id": CLOSED, "name": "Closed"}])
    await database["settings"].insert_one({"_id": "general", "reminder": {"enabled": True}})


def a_review(number: int) -> dict[str, Any]:
    """A review as stored, about a product that the customer did not buy."""
    return {
        "_id": f"review-{number}",
        "entityType": "Product",
        "entityId": f"product-{(number * 3 + 7) % 5_000}",
        "storeId": OPEN,
        "userId": f"customer-{number}",
        "status": 1,
        "ratingHundredths": 500,
        "createdDate": LONG_AGO,
        "modifiedDate": LONG_AGO,
    }


def measure_run(settings: Settings) -> Measured:
    """Run the job in a separate process."""
    environment = {
        **os.environ,
        "PLAUDIT_MONGO__URI": settings.mongo_uri(),
        "PLAUDIT_MONGO__DATABASE": settings.mongo.database,
        "PLAUDIT_KAFKA__BOOTSTRAP_SERVERS": settings.kafka_connection().bootstrap_servers,
        "PLAUDIT_KAFKA__TOPIC_PREFIX": settings.kafka.topic_prefix,
    }
    command = [sys.executable, "-m", "plaudit", "reminders", "run", "--now", NOW.isoformat()]
    started = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:  # noqa: S603
        output = process.stdout.read().decode() if process.stdout else ""
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    cpu_s = usage.ru_utime + usage.ru_stime
    return Measured(time.monotonic() - started, cpu_s, usage.ru_maxrss / 1024, output.strip())


async def main(sizes: list[int]) -> None:
    """Measure each size in a separate database, and print a table."""
    out = Console()
    table = Table("stored orders", "due", "seconds", "CPU seconds", "peak MB", "seconds if nothing is due")
    with tempfile.TemporaryDirectory() as folder:
        async with embedded_mongo(Path(folder), out.print) as mongo, embedded_kafka(Path(folder), out.print) as kafka:
            for size in sizes:
                settings = Settings.model_validate(
                    {
                        "mongo": {"uri": mongo.uri, "database": f"bench{size}"},
                        "kafka": {"bootstrap_servers": kafka.address, "topic_prefix": f"bench{size}."},
                    }
                )
                client, database = connect(mongo.uri, settings.mongo.database)
                await prepare_servers(settings, database)
                with out.status(f"Storing {size:,} orders"):
                    await store(database, size)
                await client.close()
                run, empty = measure_run(settings), measure_run(settings)
                out.print(f"{size:,} stored: {run.output} {run.seconds:.1f} s, {run.megabytes:.0f} MB")
                figures = (run.seconds, run.cpu_seconds, run.megabytes, empty.seconds)
                table.add_row(f"{size:,}", f"{DUE:,}", *(f"{figure:.1f}" for figure in figures))
    out.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stored", nargs="*", type=int, default=[10_000, 100_000, 1_000_000])
    asyncio.run(main(parser.parse_args().stored))
