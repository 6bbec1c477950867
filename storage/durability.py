"""The durability of MongoDB: does it keep acknowledged writes when one of its servers is lost?"""

from collections.abc import Mapping
from typing import Any, Final

from domain.quantities import quantity
from storage.database import Database

SAFE: Final = 2
"""The number of servers that must have a write before it counts as done, so that it survives the loss of one."""


async def why_not_durable(database: Database) -> list[str]:
    """The reasons why acknowledged writes could be lost with one server; empty if they are safe.

    `connect` takes care that a majority acknowledges and journals each write, and that reads see only such writes.
    """
    return reasons_in(await database.command("hello"))


def reasons_in(hello: Mapping[str, Any]) -> list[str]:
    """The reasons in a server's answer to `hello`. A router of shards says nothing about their servers."""
    if is_router(hello):
        return []
    holders = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
    return [] if holders >= SAFE else [f"the replica set has only {quantity(holders, 'data-bearing server')}"]


def is_router(hello: Mapping[str, Any]) -> bool:
    """True if this answer to `hello` comes from the router of a sharded cluster (`mongos`)."""
    return hello.get("msg") == "isdbgrid"
