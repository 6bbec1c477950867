"""Requests that are repeated: on a busy machine the service may first ask for that, or say that a command has no effect
yet."""

from collections.abc import Awaitable, Callable, Collection

import httpx

from .waiting import eventually

Send = Callable[[], Awaitable[httpx.Response]]


async def retry_until_served(send: Send) -> httpx.Response:
    """The response to a request that is repeated while the database is too slow; such a refused request has no effect.

    A facade gives the database a second to look up a store's rules, and a few seconds to answer a query.
    """
    return await eventually(send, lambda answer: not _is_refused_by_database(answer))


async def retry_until_decided(send: Send) -> httpx.Response:
    """The response to a command that is waited for, repeated with its `Idempotency-Key` until it has its outcome."""
    return await eventually(send, lambda answer: answer.status_code != 202 and not _is_refused_by_database(answer))


async def resend_until_refused(send: Send, meanwhile: Collection[int] = ()) -> httpx.Response:
    """The response to submissions that the API refuses at once, with the errors of their items; sent again while the
    database is too slow to check them. Until then they are accepted, and their consumer refuses them: 202, or 409 with
    results. `meanwhile`: statuses of other refusals that come before the one that the database is needed for.

    Each call of `send` needs a key of its own, or none: a repeat of what was accepted is answered like the first one.
    """

    def is_decided(answer: httpx.Response) -> bool:
        is_refused_by_consumer = answer.status_code == 409 and "errors" not in answer.json()
        return answer.status_code not in {202, 503, *meanwhile} and not is_refused_by_consumer

    return await eventually(send, is_decided)


async def resend_until_settled(send: Send) -> httpx.Response:
    """The response to a console form, sent again with its key until its command has its outcome.

    A page waits for a few seconds, then reports that the command is accepted.
    """

    def is_settled(answer: httpx.Response) -> bool:
        location = answer.headers.get("location", "")
        return not any(accepted in location for accepted in ("done=accepted", "n-accepted="))

    return await eventually(send, is_settled)


def _is_refused_by_database(answer: httpx.Response) -> bool:
    if answer.status_code != 503 or answer.headers.get("content-type") != "application/problem+json":
        return False
    return str(answer.json()["detail"]).startswith(("The database ", "MongoDB, which holds the rules of the store,"))
