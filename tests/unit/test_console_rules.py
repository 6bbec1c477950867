"""Trials of moderation rules in the console on a store's reviews."""

from typing import Any

import orjson
import pytest

from domain.permissions import Permission
from tests.support.app import client_of
from tests.support.console_pages import forms, text_of
from tests.support.faked_interface import ROW, Asked, faked

RULE = {"id": "links", "kind": "links", "outcome": "hold"}
LOST: dict[str, Any] = {"rating": 0}


def trial_within(most_bytes: int) -> Any:
    """The response to a trial by an API that accepts `most_bytes` bytes, and no incomplete review."""

    def answer(asked: Asked) -> tuple[int, Any]:
        if len(orjson.dumps(asked.body)) > most_bytes:
            return 413, {"detail": "Too large"}
        reviews = asked.body["reviews"]
        if any(each["rating"] == 0 for each in reviews):
            return 422, {"errors": [{"pointer": "/reviews/0/rating", "message": "At least 1"}]}
        row = {"fired": ["links"], "outcome": "hold"}
        summary = {**dict.fromkeys(("approved", "flagged", "untouched"), 0), "held": len(reviews), "rules": {}}
        return 200, {"results": [row for _ in reviews], "summary": summary}

    return answer


@pytest.mark.parametrize(
    ("most_bytes", "rows", "expected"),
    [
        (1_048_576, [{}] * 4, "On the last 4 reviews of s ."),
        (1_048_576, [{}, LOST, {"review": " "}, {"entityId": " "}], "On 1 of the last 4 reviews of s : the others are"),
        (1_048_576, [{"review": "a" * 20_000}] * 200, "On 50 of the last 200 reviews of s : the others are too large"),
        (1_048_576, [LOST], "On 0 of the last 1 review of s :"),
        (1_024, [{"review": "a" * 20_000}], "On 0 of the last 1 review of s :"),
        (1_048_576, [], "s has no reviews to try them on."),
    ],
)
async def test_rules_can_be_saved_despite_unusable_reviews(
    most_bytes: int, rows: list[dict[str, Any]], expected: str
) -> None:
    """Rules are tried on as many reviews as fit a request, without incomplete ones."""
    found = {"results": [{**ROW, **row, "id": f"r{number}"} for number, row in enumerate(rows)]}
    answers = {
        "stores/s": (200, {"id": "s", "name": None, "settings": {"moderationRules": []}}),
        "customerReviews/search": (200, found),
        "stores/s/moderationRules/try": trial_within(most_bytes),
    }
    here = "/console/stores/s/rules"
    async with client_of(faked([each.value for each in Permission], answers)) as http:
        sent = {"rules": orjson.dumps([RULE]).decode(), "loaded": "[]", "step": "try"}
        page = await http.post(here, data=sent)
    assert page.status_code == 200, page.text
    assert expected in text_of(page.text)
    (form,) = [each for each in forms(page.text) if each.action == here]
    assert "save" in form.buttons
