"""Concurrency limits of streamed exports, without Kafka and MongoDB."""

from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.reviews import routes
from api.web.pages import MOST_EXPORTS, MOST_EXPORTS_PER_CLIENT
from storage.audit import AuditLog
from tests.support.app import app_without_servers, client_of, problem_of
from tests.support.guarded import AUTHENTICATOR, ISSUER_OF_ALL

EXPORTS = [("GET", "/api/audit/export", None), ("POST", "/api/customerReviews/changes", {"modifiedDate": "2026-03-14"})]


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FastAPI]:
    """The facade with an empty database."""

    async def nothing(*_: Any) -> AsyncIterator[Any]:
        return
        yield

    monkeypatch.setattr(AuditLog, "every", nothing)
    monkeypatch.setattr(routes, "changed_objects", nothing)
    async with app_without_servers(authenticator=AUTHENTICATOR) as app:
        yield app


@pytest.mark.parametrize(("method", "path", "body"), EXPORTS)
async def test_concurrent_exports_are_limited_per_client_and_in_total(
    app: FastAPI, method: str, path: str, body: Any
) -> None:
    slots = app.state.services.pages.exports

    async def export(http: httpx.AsyncClient, subject: str) -> httpx.Response:
        token = ISSUER_OF_ALL.token(["audit:read", "customerReviews:read"], subject=subject)
        return await http.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})

    async with client_of(app) as http:
        # Each export releases its slot.
        assert [(await export(http, "anna")).status_code for _ in range(MOST_EXPORTS_PER_CLIENT + 1)] == [200, 200, 200]
        with ExitStack() as held:
            for _ in range(MOST_EXPORTS_PER_CLIENT):
                held.enter_context(slots.take("subject anna"))
            refused = await export(http, "anna")
            assert "concurrent downloads" in problem_of(refused, 503)["detail"]  # feeds are refused by the same words
            assert refused.headers["retry-after"]
            assert (await export(http, "bert")).status_code == 200
            for number in range(MOST_EXPORTS - MOST_EXPORTS_PER_CLIENT):
                held.enter_context(slots.take(f"subject {number}"))
            problem_of(await export(http, "bert"), 503)
        assert (await export(http, "anna")).status_code == 200
