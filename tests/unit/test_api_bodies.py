import gzip
import json
from threading import get_ident
from typing import Any

import pytest

from api.web.bodies import check_media_type, parse_json
from api.web.problems import ProblemError
from messaging import json_values
from messaging.reading_errors import InvalidContentError
from messaging.reviews import READ_SEVERAL, SUBMISSIONS
from tests.support.app import REVIEW, client_without_servers, places_in, problem_in


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"\xff",
        b'["\xff"]',
        b'["\\ud800"]',
        b"[" * 100_000,
        b'[{"rating": NaN}]',
        b'[{"unknown": -Infinity}]',
        b"[1,]",
        *(b"nope", b"\x00", b'["a"', b"[Infinity]"),
        b"[9" + b"9" * 5_000 + b"]",
    ],
)
def test_invalid_json_is_malformed(body: bytes) -> None:
    assert problem_in(SUBMISSIONS, body).kind.status == 400


def test_nan_and_infinity_are_accepted_in_text() -> None:
    review = {**REVIEW, "review": "NaN, or Infinity?"}
    assert parse_json(SUBMISSIONS, json.dumps([review]).encode())[0].review == "NaN, or Infinity?"


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        (None, "", "list-type"),
        ([], "", "too-short"),
        ([REVIEW] * 1_001, "", "too-long"),
        ([1], "/0", "model-type"),
        ([{**REVIEW, "rating": 9}], "/0/rating", "less-than-equal"),
        ([{**REVIEW, "rating": "4"}], "/0/rating", "float-type"),
        ([{**REVIEW, "rating": 3.333}], "/0/rating", "too-many-decimals"),
        ([REVIEW, {**REVIEW, "EntityId": None}], "/1/EntityId", "missing"),
        ([{**REVIEW, "review": " "}], "/0/review", "blank"),
        ([{**REVIEW, "review": "\u200b\u2060\ufeff\u3164"}], "/0/review", "blank"),
        ([{**REVIEW, "id": " "}], "/0/id", "blank"),
        ([{**REVIEW, "id": ".."}], "/0/id", "unaddressable"),
        ([{**REVIEW, "id": "canLeaveFeedback"}], "/0/id", "unaddressable"),
        ([{**REVIEW, "userId": "\t"}], "/0/userId", "blank"),
        ([{**REVIEW, "userName": "a\x00"}], "/0/userName", "string-pattern-mismatch"),
    ],
)
def test_invalid_content_is_located(body: object, pointer: str, code: str) -> None:
    assert places_in(SUBMISSIONS, body) == [(pointer, code)]


@pytest.mark.parametrize("valid", [0, 55])
def test_many_errors_are_counted_but_not_all_made(valid: int) -> None:
    bad = {"EntityId": " ", "EntityType": 1, "review": " ", "rating": 9, "userName": 1}
    body = json.dumps([REVIEW] * valid + [bad] * (1_000 - valid)).encode()
    with pytest.raises(InvalidContentError) as refused:
        READ_SEVERAL.read(body)
    assert len(refused.value.errors) < 1_250
    problem = problem_in(SUBMISSIONS, body)
    assert problem.detail == f"The request has {5 * (1_000 - valid)} errors; the first 100 are listed."
    names = ("userName", "EntityId", "EntityType", "review", "rating")
    assert [each["pointer"] for each in problem.errors] == [
        f"/{index}/{name}" for index in range(valid, valid + 20) for name in names
    ]


@pytest.mark.parametrize(("size", "is_in_thread"), [(100, False), (20_000, True)])
async def test_large_body_is_corrected_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, size: int, is_in_thread: bool
) -> None:
    def parsed(value: bytes) -> Any:
        threads.append(get_ident())
        return parse(value)

    parse, threads = json_values.parse_json, list[int]()
    monkeypatch.setattr("messaging.reading.parse_json", parsed)
    async with client_without_servers() as http:
        answer = await http.post("/api/rating/entityRating", content=b'{"ENTITYIDS": 1, "x": "%s"}' % (b"x" * size))
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/entityIds", "/entityType"]
    assert [thread != get_ident() for thread in threads] == [is_in_thread]


@pytest.mark.parametrize(
    "content_type", [None, "", "application/json", "Application/JSON; charset=utf-8", "application/ld+json"]
)
def test_json_media_types_are_accepted(content_type: str | None) -> None:
    check_media_type(content_type)


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "text/json", "json", ";", "image/svg+json"])
def test_other_media_types_are_refused(content_type: str) -> None:
    with pytest.raises(ProblemError) as refused:
        check_media_type(content_type)
    assert refused.value.kind.status == 415


@pytest.mark.parametrize(
    ("content_type", "is_utf_8"),
    [
        ('application/json; charset="UTF8"', True),
        ("application/json;charset=us-ascii", True),
        ("application/json; version=1", True),
        ("application/json; charset=utf-16", False),
        ("application/ld+json; Charset=ISO-8859-1", False),
    ],
)
def test_other_charsets_are_refused(content_type: str, is_utf_8: bool) -> None:
    if is_utf_8:
        check_media_type(content_type)
        return
    with pytest.raises(ProblemError, match="in UTF-8") as refused:
        check_media_type(content_type)
    assert refused.value.kind.status == 415


def test_byte_order_mark_is_skipped() -> None:
    body = json.dumps([REVIEW]).encode()
    assert parse_json(SUBMISSIONS, b"\xef\xbb\xbf" + body) == parse_json(SUBMISSIONS, body)
    # Also where field names are normalised; only one mark is skipped.
    assert parse_json(SUBMISSIONS, b"\xef\xbb\xbf" + body.replace(b'"review"', b'"REVIEW"'))
    assert problem_in(SUBMISSIONS, b"\xef\xbb\xbf\xef\xbb\xbf" + body).kind.status == 400


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('["a"]'.encode("utf-16"), "UTF-16"),
        ('["a"]'.encode("utf-16-be"), "UTF-16"),
        (gzip.compress(b"[]", mtime=0), "gzip"),
        (b" \n", "the value is empty"),
        (b'["\\ud83d"]', "half of a surrogate pair"),
        (b'["\\uDE00 \\ud83d\\ude00"]', "half of a surrogate pair"),
    ],
)
def test_malformed_body_is_described(body: bytes, words: str) -> None:
    problem = problem_in(SUBMISSIONS, body)
    assert (problem.kind.status, words in problem.detail) == (400, True)


def test_surrogate_pair_is_not_reported_as_half() -> None:
    assert "surrogate" not in problem_in(SUBMISSIONS, b'["\\ud83d\\ude00",]').detail
