import pytest
from jsonschema_rs import is_valid

from api.web.preferences import idempotency_key, wait_seconds
from api.web.problems import ProblemError
from plaudit.tools.openapi import service_document
from tests.support.app import client_without_servers
from tests.support.facade import problem_of


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ([], None),
        (["wait=5"], 5),
        (["Wait = 5"], 5),
        (['wait="7"'], 7),
        (["respond-async, wait=5"], 5),
        (["respond-async", "wait=5"], 5),
        (["wait=5; strict"], 5),
        (['foo="a, wait=1"; x, wait=9'], 9),
        (['foo="a \\", wait=1", wait=9'], 9),
        (['foo="never closed, wait=1'], None),
        (["wait=0"], 0),
        (["wait=007"], 7),
        (["wait=31"], 30),
        (["wait=" + "9" * 5_000], 30),
        (["wait=5, wait=6"], 5),
        (["wait=x, wait=6"], None),
        (["wait"], None),
        (["wait="], None),
        (["wait=-1"], None),
        (["wait=1.5"], None),
        (["wait=²"], None),
        (["waiting=5"], None),
    ],
)
def test_wait_preference_follows_rfc_7240(lines: list[str], seconds: int | None) -> None:
    assert wait_seconds(lines) == seconds


KEYS = ["k", "a" * 255, '"8e03978e-40d5-43dd-bc93-6894a57f9324"', "!~"]


@pytest.mark.parametrize("key", KEYS)
def test_idempotency_key_is_kept_verbatim(key: str) -> None:
    assert idempotency_key([key]) == key


def test_idempotency_key_is_optional() -> None:
    assert idempotency_key([]) is None


@pytest.mark.parametrize("lines", [[""], [" "], ["a b"], ["a" * 256], ["ä"], ["a\x00"], ["a", "a"]])
def test_invalid_idempotency_key_is_refused(lines: list[str]) -> None:
    with pytest.raises(ProblemError) as refused:
        idempotency_key(lines)
    assert refused.value.kind.status == 400


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "If-Unmodified-Since", "Content-Range"])
async def test_condition_that_is_not_evaluated_is_refused(header: str) -> None:
    async with client_without_servers() as http:
        for method, path, content in (("PUT", "/api/stores/a", b"{}"), ("DELETE", "/api/return?ids=a", b"")):
            response = await http.request(method, path, content=content, headers={header: "*"})
            assert problem_of(response, 400)["type"] == "/problems/invalid-header"
            assert header in response.text


@pytest.mark.parametrize(
    ("method", "path", "content", "has_field"),
    [
        ("POST", "/api/customerReviews/approve", b'["a"]', True),
        ("DELETE", "/api/customerReviews?ids=a", b"", True),
        ("PUT", "/api/return", b'{"id": "a", "status": "New"}', True),
        ("DELETE", "/api/return?ids=a", b"", False),
        ("PUT", "/api/stores/a", b"{}", False),
    ],
)
async def test_refused_condition_names_the_status_where_there_is_that_field(
    method: str, path: str, content: bytes, has_field: bool
) -> None:
    async with client_without_servers() as http:
        response = await http.request(method, path, content=content, headers={"If-Match": "*"})
    assert ("expectedStatus" in problem_of(response, 400)["detail"]) is has_field


def test_document_has_a_schema_for_idempotency_keys() -> None:
    parameters = service_document()["paths"]["/api/customerReviews"]["post"]["parameters"]
    (schema,) = (header["schema"] for header in parameters if header["name"] == "Idempotency-Key")
    assert all(is_valid(schema, key) for key in KEYS)
    assert not any(is_valid(schema, key) for key in ("", " ", "a b", "a" * 256, "\u00e4", "a\x00"))
