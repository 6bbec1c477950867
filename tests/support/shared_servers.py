"""One set of embedded servers for all processes of a test run."""

import asyncio
import fcntl
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO

from devservers.broker import Broker, embedded_kafka
from devservers.mongo import embedded_mongo
from devservers.tansu import TansuProcess

from .memory_folder import memory_folder
from .service import Servers


@asynccontextmanager
async def shared_servers(folder: Path, broker: Broker) -> AsyncIterator[Servers]:
    """The servers shared by all processes that use this folder.

    The first process starts them. At the end of its block it waits for the others, then stops them.
    """
    folder.mkdir(exist_ok=True)
    addresses = folder / "addresses.json"
    with (folder / "turn").open("w") as turn, (folder / "users").open("w") as users:
        await _lock(turn, fcntl.LOCK_EX)
        if addresses.exists():
            await _lock(users, fcntl.LOCK_SH)
            await _lock(turn, fcntl.LOCK_UN)
            yield Servers(**json.loads(addresses.read_text()))
            return
        with memory_folder(folder / "data") as data:
            async with embedded_mongo(data, print) as mongo, embedded_kafka(data, print, broker=broker) as kafka:
                servers = Servers(kafka.address, mongo.uri, is_tansu=isinstance(kafka, TansuProcess))
                addresses.write_text(json.dumps(asdict(servers)))
                await _lock(turn, fcntl.LOCK_UN)
                yield servers
                await _lock(turn, fcntl.LOCK_EX)
                addresses.unlink()
                await _lock(users, fcntl.LOCK_EX)


async def _lock(file: IO[str], operation: int) -> None:
    await asyncio.to_thread(fcntl.flock, file, operation)
