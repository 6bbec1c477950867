"""Resolvers from Python functions, run outside the service's event loop, so that they can't block it."""

import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from threading import Thread
from typing import Any, Final

from domain.entity_types import ResolvedEntity, ResolverError
from messaging.schemas import ENTITY_NAME_LENGTH

MOST_THREADS: Final = 8
"""Maximum number of concurrent calls of a plain function; others wait. A call that hangs keeps its thread."""

Function = Callable[[list[str]], Any]


class FunctionResolver:
    """A resolver from a Python function that takes a list of ids.

    It returns `{id: {"name": ..., "imageUrl": ...}}` or `{id: ResolvedEntity}`, without the ids that it doesn't know. A
    plain function runs in a thread, an async one on an event loop in a thread of its own: neither can block the
    service. An async one is cancelled when it takes too long; a plain one can't be, and should have its own timeout.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        called = getattr(function, "__call__", None)  # noqa: B004 - the method itself is examined
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
        self._slots = asyncio.Semaphore(MOST_THREADS)

    async def __call__(self, ids: Collection[str]) -> Mapping[str, ResolvedEntity]:
        """Names and images by id. Raises ResolverError."""
        try:
            found = await (self._on_own_loop if self._is_async else self._in_thread)(list(ids))
        except ResolverError:
            raise
        except Exception as error:
            # Without the text of the error, which may name an object.
            raise ResolverError(f"the function raised {type(error).__name__}") from error
        if not isinstance(found, Mapping):
            raise ResolverError(f"the function must return a mapping by id, not {type(found).__name__}")
        entities = {id: _entity(found[id]) for id in ids if id in found}
        return {id: entity for id, entity in entities.items() if entity}

    async def _on_own_loop(self, ids: list[str]) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._function(ids), self._own_loop))

    @cached_property
    def _own_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        # Daemon threads: the process can exit while code hangs.
        Thread(target=loop.run_forever, name="resolver", daemon=True).start()
        return loop

    async def _in_thread(self, ids: list[str]) -> Any:
        await self._slots.acquire()
        loop = asyncio.get_running_loop()
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()  # not cancelled with its caller: the function runs on

        def work() -> None:
            try:
                answer.set_result(self._function(ids))
            except BaseException as error:
                answer.set_exception(ResolverError(f"the function raised {type(error).__name__}"))
            with suppress(RuntimeError):  # the service's loop is closed
                loop.call_soon_threadsafe(self._slots.release)

        Thread(target=work, name="resolver", daemon=True).start()
        return await asyncio.wrap_future(answer)


def _entity(value: object) -> ResolvedEntity | None:
    if isinstance(value, ResolvedEntity):
        return resolved_entity(value.name, value.image_url)
    if isinstance(value, Mapping):
        return resolved_entity(value.get("name"), value.get("imageUrl"))
    if value is None:
        return None
    raise ResolverError(f'the function must return {{"name", "imageUrl"}} for an id, not {type(value).__name__}')


def resolved_entity(name: object, image_url: object) -> ResolvedEntity | None:
    """A name and the URL of an image, fit to be stored and shown; None without a name.

    Names are truncated to the maximum length of a submitted one.
    """
    text = _text(name)
    return ResolvedEntity(text[:ENTITY_NAME_LENGTH], _text(image_url)) if text else None


def _text(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        return None
    # NUL and lone surrogates can't be stored.
    return value.replace("\0", "").encode("utf-8", "ignore").decode().strip() or None
