"""The news of the console's queue, as far as they need no servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, cast

from console.queue_news import QueueNews
from domain.permissions import STRANGER
from messaging.kafka.tail import Tail


class BrokenTail(AsyncIterator[Any]):
    """Reads nothing, and ends once it may."""

    def __init__(self) -> None:
        self.readers = 0
        self.ends = asyncio.Event()

    def records(self, since: datetime) -> AsyncIterator[Any]:
        self.readers += 1
        return self

    def __aiter__(self) -> BrokenTail:
        return self

    async def __anext__(self) -> Any:
        await self.ends.wait()
        raise RuntimeError("nobody can read on")


async def test_pages_that_wait_for_news_begin_again_where_their_reader_ended() -> None:
    tail = BrokenTail()
    news = QueueNews(cast(Tail, tail))
    async with asyncio.timeout(60):
        page = news.news(STRANGER, 0.01)
        assert await anext(page) is None
        tail.ends.set()
        assert [each async for each in page if each is not None] == []
        tail.ends.clear()
        assert await anext(news.news(STRANGER, 0.01)) is None
    assert tail.readers == 2
    await news.stop()
