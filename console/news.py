"""News of the queue for an open page, by server-sent events."""

from collections.abc import AsyncIterator
from time import monotonic
from typing import Final

import orjson
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from api.auth.permissions import client_name
from api.web.budgets import NoRoomError
from api.web.problems import problem_response
from console.api_client import Refused, segment
from console.queue_news import News, QueueNews
from console.screens import Screens
from console.visits import Visit
from domain.permissions import Permission

_CHECK_S: Final = 4.0
"""Seconds between checks that the visitor may still read the stream."""

screens = Screens()


@screens.get("/queue/news", Permission.READ_REVIEWS, Permission.MODERATE_REVIEWS)
async def news(visit: Visit) -> Response:
    """The stream of news about the visitor's stores; 503 if no slot is left for one."""
    if visit.queue_news is None:
        raise Refused(503, {"detail": "Live updates are not available at the moment."})
    return _Stream(visit.queue_news, visit)


@screens.post("/queue/claims", Permission.MODERATE_REVIEWS)
async def claim(visit: Visit) -> Response:
    """Announce to others that the visitor is looking at a review."""
    form = await visit.form()
    id = segment(str(form.get("id")))
    await visit.facade.ask("POST", f"/api/customerReviews/{id}/claim", {"desk": form.get("desk") or None})
    return JSONResponse({})


class _Stream(StreamingResponse):
    """The stream of an open page. Its slot is taken when it begins, so that it is given back however it ends; without
    one the response is a problem, as nobody would see a page."""

    def __init__(self, queue_news: QueueNews, visit: Visit) -> None:
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(_events(queue_news, visit), media_type="text/event-stream", headers=headers)
        self._slot = queue_news.slots.take(client_name(visit.request, visit.caller.subject))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the news, or the refusal if there is no slot."""
        with self._slot as has_slot:
            if has_slot:
                await super().__call__(scope, receive, send)
            else:
                refusal = NoRoomError("Too many pages receive live updates.")
                await problem_response(scope, refusal)(scope, receive, send)


async def _events(queue_news: QueueNews, visit: Visit) -> AsyncIterator[bytes]:
    checked = monotonic()
    yield b"retry: 1000\n\n"
    async for each in queue_news.news(visit.caller, _CHECK_S):
        if monotonic() - checked >= _CHECK_S:
            if visit.is_still_in is None or not await visit.is_still_in():
                return
            checked = monotonic()
        yield b": still here\n\n" if each is None else _event(each)


def _event(news: News) -> bytes:
    who = {"by": news.by, "desk": news.desk}
    decided = {"status": news.status, "reason": news.reason_code}
    data = {"id": news.review_id, "store": news.store_id, "at": news.at, **who, **decided}
    return b"event: %s\ndata: %s\n\n" % (news.kind.encode(), orjson.dumps(data))
