"""Does MongoDB keep what it has acknowledged when one of its servers is lost?"""

from collections.abc import Mapping
from typing import Any, Final

from storage.database import Database

SAFE: Final = 2
"""Servers that must have a write before it counts as done, so that it outlives one of them."""


async def why_not_durable(database: Database) -> list[str]:
    """The reasons why acknowledged writes could be lost with one server; none where they are safe.

    That a majority acknowledges each write, with its journal, and that reads see only such writes, is `connect`'s.
    """
    return reasons_in(await database.command("hello"))


def reasons_in(hello: Mapping[str, Any]) -> list[str]:
    """The reasons in a server's answer to `hello`. A router of shards tells nothing of their servers."""
    if is_router(hello):
        return []
    holders = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
    return [] if holders >= SAFE else [f"the replica set has {holders} server{'s' * (holders != 1)} with data"]


def is_router(hello: Mapping[str, Any]) -> bool:
    """True if the server that said this is the router of a sharded cluster (`mongos`)."""
    return hello.get("msg") == "isdbgrid"
