"""Private parts and defects of PyMongo 4.20, each in one function.

tests/unit/test_pymongo_internals.py fails when they change. docs/library-proposals.md proposes fixes.
"""

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeVar

import pymongo.errors
import pymongo.lock
from pymongo.errors import InvalidOperation

T = TypeVar("T")

_KEY: Final = " dup key:"
_COMMAND: Final = re.compile(r"( to execute command \{ \w+: [^,]*),.*", re.DOTALL)
_MOST_FAILURES: Final = 3


def wait_in_one_task() -> None:
    """Make PyMongo wait for servers and connections as `asyncio.wait_for` does since Python 3.12.

    Older versions of `wait_for` run the awaited coroutine in a task of its own. If the caller is cancelled while that
    task acquires the lock of the topology or of a pool again, the lock is never released, and the client is unusable.
    """
    pymongo.lock.wait_for = _wait_for  # type: ignore[attr-defined, assignment]


async def _wait_for(awaited: Awaitable[T], seconds: float | None) -> T:
    async with asyncio.timeout(seconds):
        return await awaited


def hide_documents_in_errors() -> None:
    """Make the texts of PyMongo's errors contain the server's answer only, not what was written: replaces
    `errors._format_detailed_error`.

    By default they contain all details: the documents of a bulk write, and the values that failed a validation, with
    customers' words, names and addresses. Error texts are logged, and put into dead letters.
    """
    pymongo.errors._format_detailed_error = _without_documents


def _without_documents(message: str, details: Mapping[str, Any] | Sequence[Any] | None) -> str:
    found = details if isinstance(details, Mapping) else {}
    failures = [*found.get("writeErrors", ()), *found.get("writeConcernErrors", ())]
    answers = dict.fromkeys(f"{each.get('errmsg')} ({each.get('code')})" for each in failures)
    # The key of a duplicate is a value, too, as are those of a forbidden command: a customer id may be a mail address.
    texts = (_COMMAND.sub(r"\1 }", each.partition(_KEY)[0]) for each in [message, *list(answers)[:_MOST_FAILURES]])
    return "; ".join(texts)


def is_of_closed_client(error: BaseException) -> bool:
    """True for an error of a client that was closed while in use.

    A task that is cancelled in a transaction may raise it instead of the cancellation: PyMongo aborts the transaction
    first.
    """
    return isinstance(error, InvalidOperation) and str(error).endswith("after close")


async def cancel_and_wait(*tasks: asyncio.Task[Any], again_s: float = 1.0) -> None:
    """Cancel tasks and wait until they have ended; their exceptions stay with them.

    A task that goes on is cancelled again after `again_s` seconds: PyMongo reads from servers by `asyncio.wait_for`,
    which before Python 3.12 loses a cancellation that arrives just as its future completes. A caller that is cancelled
    itself goes on waiting, and then raises the cancellation.
    """
    cancelled: asyncio.CancelledError | None = None
    while going_on := [task for task in tasks if not task.done()]:
        for task in going_on:
            task.cancel()
        try:
            await asyncio.wait(going_on, timeout=again_s)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def side_by_side(*works: Awaitable[None]) -> None:
    """Run all concurrently until all have ended or one has failed, and raise its exception. A cancellation ends all of
    them.

    Not a TaskGroup: it cancels its tasks only once, and waits forever for one that lost the cancellation.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        await cancel_and_wait(*tasks)
