"""The fault suite repeats acknowledged commands, and finds every answer to a repeat that isn't documented."""

from typing import Any

import pytest

from tests.chaos.clients import Answer, Sent
from tests.chaos.model import Json
from tests.chaos.repeats import another_body, wrong_answer

SENT = Sent("POST", "/api/customerReviews", [{"title": "Sharp"}], "key", "c", ["a", "b"])
RESULTS = [{"id": "b", "outcome": "applied"}, {"id": "a", "outcome": "refused", "reason": "id-taken"}]
RIGHT: Json = {"commandId": "c", "ids": ["a", "b"], "outcome": "partial", "results": RESULTS[::-1]}
UNKNOWN = Answer(404, {}, 1)
WAITING = Answer(200, {"outcome": "accepted", "results": RESULTS[:1]}, 1)
PARTIAL = Answer(200, {"outcome": "partial", "results": RESULTS}, 1)
REFUSED = Answer(200, {"outcome": "refused", "results": RESULTS[1:]}, 1)


def is_wrong(state: Answer, status: int, body: Json, *, is_awaited: bool = True) -> bool:
    return wrong_answer(SENT, state, Answer(status, body, 1), is_awaited=is_awaited) is not None


@pytest.mark.parametrize(
    ("state", "status", "body"),
    [
        (PARTIAL, 200, RIGHT),
        (REFUSED, 409, RIGHT | {"outcome": "refused", "results": RESULTS[1:]}),
        (WAITING, 200, RIGHT),
        (UNKNOWN, 202, {"commandId": "c", "ids": ["a", "b"], "outcome": "accepted"}),
        # Its subject may have been deleted before it was applied.
        (UNKNOWN, 404, {"type": "/problems/not-found"}),
        (WAITING, 409, {"type": "/problems/id-taken"}),
    ],
)
def test_documented_answers_are_right(state: Answer, status: int, body: Json) -> None:
    assert not is_wrong(state, status, body)


def test_a_repeat_that_does_not_wait_is_accepted() -> None:
    body = {"commandId": "c", "ids": ["a", "b"], "outcome": "accepted"}
    assert not is_wrong(PARTIAL, 202, body, is_awaited=False)
    assert is_wrong(PARTIAL, 202, {**body, "ids": ["x", "y"]}, is_awaited=False)


@pytest.mark.parametrize(
    ("state", "status", "body"),
    [
        (PARTIAL, 200, {**RIGHT, "commandId": "other"}),
        (PARTIAL, 200, {**RIGHT, "ids": ["a", "x"]}),
        (PARTIAL, 200, {**RIGHT, "results": RESULTS[:1]}),
        (PARTIAL, 200, {**RIGHT, "results": [{**each, "outcome": "unchanged"} for each in RESULTS]}),
        (PARTIAL, 202, {"commandId": "c", "ids": ["a", "b"], "outcome": "accepted"}),
        (PARTIAL, 409, {"type": "/problems/id-taken"}),
        (PARTIAL, 404, {"type": "/problems/not-found"}),
        (PARTIAL, 422, {"type": "/problems/idempotency-key-reused"}),
        (REFUSED, 200, RIGHT),
        (UNKNOWN, 200, {**RIGHT, "commandId": "other"}),
        (UNKNOWN, 400, {"type": "/problems/bad-request"}),
    ],
)
def test_other_answers_are_wrong(state: Answer, status: int, body: Json) -> None:
    assert is_wrong(state, status, body)


@pytest.mark.parametrize("body", [[{"title": "Sharp"}], ["a", "b"], {"ids": ["a", "b"], "textHashes": {"b": "0"}}])
def test_another_body_differs(body: Any) -> None:
    assert another_body(body) not in (None, body)


@pytest.mark.parametrize("body", [None, b"image", ["a"], {"ids": ["a"]}, {"text": "Thanks"}])
def test_some_bodies_have_no_other(body: Any) -> None:
    assert another_body(body) is None
