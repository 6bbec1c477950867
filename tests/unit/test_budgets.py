"""Byte budgets: shares that are granted, waited for and reclaimed."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from unittest.mock import AsyncMock
from uuid import uuid4

import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from api.web import budgets, concurrency
from api.web.budgets import Budget, NoRoomError, Share, StalledError
from api.web.concurrency import SMALL, ConcurrencyLimit, limit_body, take_room
from api.web.process_limits import Limits
from domain.images import ImageState, StoredImage
from domain.ratings import RatingTally
from domain.stores import GeneralSettings
from storage.images.files import FoundFile, files_in_memory
from storage.images.repository import ImageRepository
from storage.images.reviews import ReviewImageRepository
from tests.support.app import app_without_servers, client_of, client_without_servers
from tests.support.waiting import eventually


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long enough that no wait times out on a slow machine."""
    monkeypatch.setattr(budgets, "PATIENCE_S", 60.0)


async def stall(share: Share, until: asyncio.Event) -> None:
    async with share.stalling():
        await until.wait()


async def test_shares_are_waited_for_and_released() -> None:
    budget = Budget(1_000, "bodies of")
    shares = [await budget.take(10) for _ in range(100)]
    waiting = [asyncio.create_task(budget.take(10)) for _ in range(2)]
    await asyncio.sleep(0)
    assert (budget.held, [task.done() for task in waiting]) == (1_000, [False, False])
    shares[0].give_back(down_to=3)
    shares[1].give_back()
    first = await waiting[0]
    assert (budget.held, waiting[1].done()) == (993, False)
    first.give_back()
    first.give_back()
    await waiting[1]
    assert budget.held == 993


async def test_waiting_for_a_share_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "PATIENCE_S", 0.05)
    budget = Budget(100, "bodies of")
    share = await budget.take(60)
    with pytest.raises(NoRoomError):
        await budget.take(60)
    share.give_back()
    assert budget.held == 0
    cancelled = [await budget.take(75), asyncio.create_task(budget.take(75))]
    await asyncio.sleep(0)
    assert isinstance(cancelled[1], asyncio.Task)
    assert isinstance(cancelled[0], Share)
    cancelled[0].give_back()
    cancelled[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled[1]
    assert budget.held == 0


async def test_large_shares_leave_room_for_small_ones() -> None:
    budget = Budget(640, "bodies of")
    await budget.take(5)
    huge = await budget.take(10_000)
    assert budget.held == 485
    waiting = asyncio.create_task(budget.take(11))
    for _ in range(15):
        await budget.take(10)
    assert not waiting.done()
    huge.give_back(down_to=10)
    await waiting


async def test_longest_stalled_clients_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "STALLED_S", 0.05)
    budget, never = Budget(1_000, "bodies of"), asyncio.Event()
    stalled = []
    for _ in range(100):
        stalled.append(asyncio.create_task(stall(await budget.take(10), never)))
        await asyncio.sleep(0)
    wanted = [await budget.take(10), await budget.take(10)]
    with pytest.raises(StalledError):
        await stalled[0]
    with pytest.raises(StalledError):
        await stalled[1]
    assert not any(task.done() for task in stalled[2:])
    assert budget.held == 1_000
    for share in wanted:
        share.give_back()
    never.set()
    await asyncio.gather(*stalled[2:])
    assert not budget.stalling


async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass


async def receive_bytes() -> Message:
    await asyncio.sleep(0.01)  # the next byte of a slow body
    return {"type": "http.request", "body": b"x", "more_body": True}


async def send_nothing(message: Message) -> None:
    raise NotImplementedError


@pytest.mark.parametrize(("rate", "is_kept"), [(1, True), (1_000_000, False)])
async def test_bodies_at_the_minimum_rate_keep_their_room(
    rate: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "STALLED_S", 0.2)
    if is_kept:
        monkeypatch.setattr(budgets, "PATIENCE_S", 1.0)
    monkeypatch.setattr(concurrency, "BYTES_PER_S", rate)

    bodies = Budget(1_000_000, "bodies of")
    limited_app = ConcurrencyLimit(read_all, 1, bodies, Budget(1, "answers to"), 700_000)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"700000")]}
    client = asyncio.create_task(limited_app(scope, receive_bytes, send_nothing))
    await eventually(lambda: bodies.held == 700_000)
    try:
        if is_kept:
            with pytest.raises(NoRoomError):
                await bodies.take(700_000)
        else:
            with await bodies.take(700_000), pytest.raises(NoRoomError):
                await client
    finally:
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
    assert (bodies.held, len(bodies.stalling)) == (0, 0)


async def test_trickling_bodies_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then isn't progress: it doesn't keep the memory of the announced body from others."""
    monkeypatch.setattr(budgets, "STALLED_S", 0.05)
    monkeypatch.setattr(budgets, "PATIENCE_S", 10.0)
    statuses: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            while (await receive()).get("more_body"):
                pass
        except NoRoomError:
            statuses.append(503)

    bodies = Budget(32_000_000, "bodies of")
    limited_app = ConcurrencyLimit(app, 100, bodies, Budget(1, "answers to"), 8_000_000)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"8000000")]}
    async with asyncio.TaskGroup() as strangers:
        tasks = [strangers.create_task(limited_app(dict(scope), receive_bytes, send_nothing)) for _ in range(3)]
        try:
            await eventually(lambda: bodies.held == 24_000_000)
            with await bodies.take(10_000_000):
                await eventually(lambda: statuses == [503, 503])
        finally:
            for task in tasks:
                task.cancel()


@pytest.mark.parametrize(("path", "status"), [("/api/customerReviews", 202), ("/api/rating/entityRating", 503)])
async def test_command_responses_need_no_share(path: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "PATIENCE_S", 0.01)
    answers = Budget(100_000, "answers to")
    others = await answers.take(75_000)
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    app = Response(b"a" * 100_000, 202)
    limited_app = ConcurrencyLimit(app, 2, Budget(1, "bodies of"), answers, 1)
    await limited_app({"type": "http", "method": "POST", "path": path, "headers": []}, receive_nothing, send)
    assert sent[0]["status"] == status
    others.give_back()
    assert answers.held == 0


async def receive_nothing() -> Message:
    raise NotImplementedError


@pytest.mark.parametrize(("in_stores", "reserved"), [(9_000, 9_001 * 1_024), (100, 0)], ids=["many", "few"])
async def test_ratings_in_many_stores_are_read_within_the_budget(in_stores: int, reserved: int) -> None:
    async with app_without_servers() as app:
        services, held = app.state.services, list[int]()

        async def tallies(type: str, ids: Collection[str], **_: object) -> dict[str, dict[str | None, RatingTally]]:
            held.append(services.pages.held)
            return {id: dict.fromkeys((None, *map(str, range(in_stores))), RatingTally(1, 400)) for id in ids}

        services.ratings.of_entities = tallies
        services.ratings.count_of_entities = AsyncMock(return_value=in_stores + 1)
        services.stores.count = AsyncMock(return_value=9_000)
        services.stores.general = AsyncMock(return_value=GeneralSettings())
        services.lookups.stores = AsyncMock(return_value={})
        async with client_of(app) as http:
            asked = {"entityType": "Product", "entityIds": ["camera"]}
            response = await http.post("/api/rating/entityRating", json=asked)
    assert (len(response.json()), held, services.pages.held) == (in_stores + 1, [reserved], 0)


@pytest.mark.parametrize(("own", "expected"), [(500_000, 500_000), (None, 100_000)])
async def test_uploads_get_larger_shares(own: int | None, expected: int) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise NotImplementedError

    bodies = Budget(1_000_000, "bodies of")
    limited_app = ConcurrencyLimit(app, 1, bodies, Budget(1, "answers to"), 100_000)
    scope: Scope = {"path": "/", "headers": [(b"content-length", b"999999999")]}
    if own is not None:
        limit_body(scope, own)
    share = await limited_app.room_for_body(scope)
    assert share is not None
    assert bodies.held == expected


@pytest.mark.parametrize("size", [SMALL, SMALL + 1])
async def test_share_of_a_response_is_released_with_it(size: int) -> None:
    answers, held, bodies = Budget(2_000_000, "answers to"), list[int](), [b"a" * size, b"too late"]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await take_room(scope, size)
        held.append(answers.held)
        await Response(bodies.pop(0))(scope, receive, send)

    async def send(message: Message) -> None:
        held.append(answers.held)

    limited_app = ConcurrencyLimit(app, 1, Budget(1, "bodies of"), answers, 1)
    for _ in range(2):
        await limited_app({"type": "http", "method": "GET", "path": "/", "headers": []}, receive_nothing, send)
    # Also if the response turns out smaller than its reserved bytes.
    assert set(held) == {0 if size == SMALL else size}
    assert answers.held == 0


async def test_images_are_read_after_reserving_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    id, files = str(uuid4()), files_in_memory()
    await files.put(id, [b"a" * 1_000_000, b"small"])
    stored = StoredImage(id, ImageState.READY, datetime.now(UTC), review_id="r")
    monkeypatch.setattr(ImageRepository, "get", AsyncMock(return_value=stored))
    monkeypatch.setattr(ReviewImageRepository, "get", AsyncMock(return_value=None))
    find, many, found, begun = files.find, asyncio.Event(), list[FoundFile](), list[FoundFile]()

    async def find_one(id: str, size: int) -> FoundFile | None:
        file = await find(id, size)
        assert file is not None
        found.append(file)

        async def read() -> bytes:
            begun.append(file)
            await many.wait()
            return await file.read()

        return file._replace(read=read)

    monkeypatch.setattr(files, "find", find_one)
    limits = Limits(max_answers_bytes=4_000_000)
    async with client_without_servers(image_files=files, limits=limits) as http, asyncio.TaskGroup() as group:
        answers = [group.create_task(http.get(f"/api/images/{id}")) for _ in range(10)]
        await eventually(lambda: len(found) == 10)
        # A quarter of the budget is reserved for smaller responses.
        assert len(begun) == 3
        many.set()
    assert [len((await each).content) for each in answers] == [1_000_000] * 10
