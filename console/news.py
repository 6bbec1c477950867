"""News of the queue for an open page, by server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import monotonic
from typing import Final

import orjson
from starlette.responses import JSONResponse, Response, StreamingResponse

from console.facade import Refused
from console.feed import Feed, News
from console.screens import Screens
from console.visits import Visit
from domain.permissions import Caller, Permission

_PAUSE_S: Final = 15.0
_LONGEST_S: Final = 60.0
"""Then the browser asks anew, and who may no longer see it is refused."""

screens = Screens()


@screens.get("/queue/news", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def news(visit: Visit) -> Response:
    """The stream of news in the visitor's stores."""
    if visit.feed is None:
        raise Refused(503, {"detail": "There are no news at the moment."})
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_events(visit.feed, visit.caller), media_type="text/event-stream", headers=headers)


@screens.post("/queue/claims", Permission.MODERATE_REVIEWS)
async def claim(visit: Visit) -> Response:
    """Tell others that the visitor looks at a review."""
    form = await visit.form()
    await visit.facade.ask("POST", f"/api/customerReviews/{form.get('id')}/claim", {"desk": form.get("desk") or None})
    return JSONResponse({})


async def _events(feed: Feed, caller: Caller) -> AsyncIterator[bytes]:
    end = monotonic() + _LONGEST_S
    yield b"retry: 1000\n\n"
    async for each in feed.news(caller, _PAUSE_S):
        yield b": still here\n\n" if each is None else _event(each)
        if monotonic() > end:
            return


def _event(news: News) -> bytes:
    told = {"id": news.review_id, "store": news.store_id, "by": news.by, "desk": news.desk, "status": news.status}
    return b"event: %s\ndata: %s\n\n" % (news.kind.encode(), orjson.dumps(told))
