"""Operations without a body accept an empty one, and refuse one with content."""

from threading import get_ident
from typing import Any

import orjson
import pytest

from tests.support.app import client_without_servers
from tests.support.facade import REVIEWS, errors_of, problem_of

IMAGE = "0190b8a2-5c1e-7d3a-9b61-2f4d8e0c7a11"
WITHOUT_BODY = [
    ("GET", "/api/audit?reviewId=a"),
    ("GET", "/api/stores/a"),
    ("DELETE", "/api/return?ids=a"),
    ("DELETE", f"{REVIEWS}/r/reply"),
    ("DELETE", "/api/notificationTemplates/OrderReviewRequest"),
    ("POST", "/api/rating/calculateStore?storeId=A"),
    ("POST", f"{REVIEWS}/r/images/{IMAGE}/hide"),
    ("POST", f"{REVIEWS}/r/images/{IMAGE}/show"),
]
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(("method", "path"), WITHOUT_BODY)
async def test_unexpected_body_is_refused(method: str, path: str) -> None:
    async with client_without_servers() as http:
        for content, headers in (
            (b'{"reason": "x"}', {}),
            (b'{"ids": ["b"]}', {}),
            (b'["a", {"b": 7}]', {}),
            (b"x", {"content-type": "text/plain"}),
            (b"reason=x", FORM),
            (b"[%s[]]" % (b"[]," * 50_000), {}),
        ):
            response = await http.request(method, path, content=content, headers=headers)
            assert errors_of(response) == [("", "unexpected-body")], content
        assert "takes no body" in problem_of(response, 422)["errors"][0]["message"]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b" { }\n", b"null", b"\r\n", b"[]", b'{"name": "OrderReviewRequest", "storeId": null}']
)
async def test_empty_or_redundant_body_is_accepted(content: bytes) -> None:
    async with client_without_servers() as http:
        for headers in ({}, FORM, {"content-type": "application/json"}):
            # The body was accepted: 503 because Kafka is unavailable.
            path = "/api/notificationTemplates/OrderReviewRequest"
            assert (await http.request("DELETE", path, content=content, headers=headers)).status_code == 503
            assert (await http.request("GET", f"{path}?storeId=s", content=content, headers=headers)).status_code == 503


@pytest.mark.parametrize(("size", "is_in_thread"), [(10, False), (20_000, True)])
async def test_large_unexpected_body_is_parsed_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, is_in_thread: bool
) -> None:
    def parsed(content: bytes) -> Any:
        threads.append(get_ident())
        return parse(content)

    parse, threads = orjson.loads, list[int]()
    monkeypatch.setattr(orjson, "loads", parsed)
    async with client_without_servers() as http:
        # The body was accepted: 503 because Kafka is unavailable.
        path, content = "/api/notificationTemplates/OrderReviewRequest", b"[%s[]]" % (b"[]," * size)
        assert (await http.request("DELETE", path, content=content)).status_code == 503
    assert [thread != get_ident() for thread in threads] == [is_in_thread]


@pytest.mark.parametrize("path", [f"{REVIEWS}?ids=r", f"{REVIEWS}/r/votes?userId=u"])
@pytest.mark.parametrize("content", [b"", b"null", b" null\n"])
async def test_null_body_counts_as_missing(path: str, content: bytes) -> None:
    async with client_without_servers() as http:
        # The body was accepted: 503 because MongoDB is unavailable.
        assert (await http.request("DELETE", path, content=content)).status_code == 503


@pytest.mark.parametrize("content", [b"", b"\n"])
async def test_claim_needs_no_body(content: bytes) -> None:
    async with client_without_servers() as http:
        # The body was accepted: 503 because MongoDB is unavailable.
        assert (await http.post(f"{REVIEWS}/r/claim", content=content)).status_code == 503
        assert errors_of(await http.post(f"{REVIEWS}/r/claim", json={"desks": "d"})) == [("/desks", "unknown-field")]
        problem_of(await http.post(f"{REVIEWS}/r/claim", content=b"{"), 400)
