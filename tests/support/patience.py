"""Answers to requests as a client gets them in the end: a busy machine makes a service say that it should try again, or
that a command has yet to take effect."""

from collections.abc import Awaitable, Callable

import httpx

from .waiting import eventually

Send = Callable[[], Awaitable[httpx.Response]]


async def served(send: Send) -> httpx.Response:
    """The answer to a request that is sent again while the database is too slow for it: nothing of it is taken then.

    A facade gives the database a second to tell the rules of a store, and some to answer a query.
    """
    return await eventually(send, lambda answer: not _is_refused_by_database(answer))


async def decided(send: Send) -> httpx.Response:
    """The answer to a command that is waited for, sent again with its `Idempotency-Key` until it was decided upon."""
    return await eventually(send, lambda answer: answer.status_code != 202 and not _is_refused_by_database(answer))


async def settled(send: Send) -> httpx.Response:
    """The answer to a form of the console, sent again with its key until its command was decided upon.

    A page waits for some seconds, and says then that it takes effect in a moment.
    """

    def is_settled(answer: httpx.Response) -> bool:
        location = answer.headers.get("location", "")
        return not any(accepted in location for accepted in ("done=accepted", "n-accepted="))

    return await eventually(send, is_settled)


def _is_refused_by_database(answer: httpx.Response) -> bool:
    if answer.status_code != 503 or answer.headers.get("content-type") != "application/problem+json":
        return False
    return str(answer.json()["detail"]).startswith(("The database ", "MongoDB, which holds the rules of the store,"))
