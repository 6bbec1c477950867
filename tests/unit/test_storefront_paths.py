"""Storefront requests with impossible paths."""

from urllib.parse import unquote

import pytest

from api.web.limits import RateLimit
from storefront.app import add_storefront
from tests.support.app import app_without_servers, client_of
from tests.support.facade import errors_of

WRITES = [("POST", "votes"), ("DELETE", "votes"), ("POST", "reports"), ("POST", "reviews"), ("POST", "images")]
BAD = {"%20": "blank", "%00": "string-pattern-mismatch", "x" * 129: "string-too-long"}


@pytest.mark.parametrize(("method", "resource"), [*WRITES, ("GET", "reviews"), ("GET", "summary"), ("GET", "form")])
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:5])
@pytest.mark.parametrize("place", ["storeId", "entityType", "entityId"])
async def test_impossible_paths_are_refused_before_any_read_and_counted(
    method: str, resource: str, bad: str, place: str
) -> None:
    parts = {"storeId": "S", "entityType": "Product", "entityId": "1"} | {place: bad}
    path = f"/storefront/v1/{'/'.join(parts.values())}/{resource}"
    async with app_without_servers(app={"rate_limit": RateLimit(0.001, 2)}) as app:
        add_storefront(app)
        async with client_of(app) as http:
            answers = [await http.request(method, path, content=b"{") for _ in range(3)]
    assert errors_of(answers[0]) == [(f"/{place}", BAD[bad])], unquote(path)
    assert [answer.status_code for answer in answers] == [422, 422, 429]
