"""Trials of moderation rules in the console on a store's reviews, and errors in rules."""

import re
from collections.abc import Sequence
from typing import Any

import httpx
import orjson
import pytest
from pydantic import ValidationError

from api.web.problems import item_error
from messaging.moderation_rules import MODERATION_RULES
from messaging.moderation_rules_trial import TriedReview
from messaging.reading_errors import input_error
from tests.support.console_pages import forms, text_of
from tests.support.faked_interface import ROW, Answer, Asked, post_form

RULE = {"id": "links", "kind": "links", "outcome": "hold"}
STORE: dict[str, Any] = {"id": "s", "name": None, "settings": {"moderationRules": []}}
HERE = "/console/stores/s/rules"
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


async def tried(rules: list[dict[str, Any]], trial: Answer, rows: Sequence[dict[str, Any]] = ()) -> httpx.Response:
    """The page after a trial of rules on these reviews of their store, which the API answers like this."""
    answers = {
        "stores/s": (200, STORE),
        "customerReviews/search": (200, {"results": [{**ROW, **row, "id": f"r{n}"} for n, row in enumerate(rows)]}),
        "stores/s/moderationRules/try": trial,
    }
    return await post_form(HERE, {"rules": orjson.dumps(rules).decode(), "loaded": "[]", "step": "try"}, answers)


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
    page = await tried([RULE], trial_within(most_bytes), rows)
    assert page.status_code == 200, page.text
    assert expected in text_of(page.text)
    (form,) = [each for each in forms(page.text) if each.action == HERE]
    assert "save" in form.buttons


async def test_rules_are_tried_on_all_that_they_examine() -> None:
    asked: list[Asked] = []

    def answer(trial: Asked) -> tuple[int, Any]:
        asked.append(trial)
        return 422, {"errors": []}

    await tried([RULE], answer, [{}])
    examined = {name.replace("_", "") for name in TriedReview.model_fields}
    for trial in asked:
        (review,) = trial.body["reviews"]
        assert examined <= {name.lower() for name in review}


def refusal_of(rules: list[dict[str, Any]]) -> tuple[int, Any]:
    """The response of the API to these rules, as it validates them."""
    with pytest.raises(ValidationError) as refused:
        MODERATION_RULES.validate_python(rules, strict=False)
    found = [input_error({**each, "loc": ("rules", *each["loc"])}) for each in refused.value.errors()]
    errors = [item_error(each) for each in found]
    return 422, {"type": "/problems/validation", "detail": "The request has an error.", "errors": errors}


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{**RULE, "kind": "words"}], "“Words and phrases” is required for the kind words"),
        ([{**RULE, "kind": "stars"}], "“Fewer stars than” or “More stars than” is required for the kind stars"),
        ([{**RULE, "kind": "stars", "below": 3}], "“Approved after hours” (1 to 336) is required"),
        ([{**RULE, "id": ""}], "Name: "),
        ([RULE, RULE], "Two rules have the same “Name”: links"),
    ],
)
async def test_errors_in_rules_use_the_labels_of_the_form(rules: list[dict[str, Any]], words: str) -> None:
    page = await tried(rules, refusal_of(rules))
    assert page.status_code == 422
    shown = text_of(page.text)
    assert words in shown
    assert "Nothing was saved." in shown
    assert not re.search("`|moderationRules|publishAfterHours: ", shown), shown


@pytest.mark.parametrize(
    ("rule", "marked"),
    [
        ({**RULE, "kind": "stars", "below": 9, "publishAfterHours": 5}, ["1.below"]),
        ({**RULE, "kind": "stars", "below": 3}, ["1.publishAfterHours"]),
        ({**RULE, "languages": ["?"]}, ["1.languages"]),
        ({**RULE, "kind": "stars"}, ["1.below", "1.above"]),
        ({**RULE, "id": ""}, ["1.id"]),
    ],
)
async def test_wrong_fields_of_a_rule_are_marked(rule: dict[str, Any], marked: list[str]) -> None:
    """The script focuses the first one that is marked."""
    rules = [{**RULE, "id": "other"}, rule]
    page = await tried(rules, refusal_of(rules))
    assert re.findall(r'<\w+ name="([^"]*)"[^>]* aria-invalid="true" aria-describedby="e-1"', page.text) == marked
    assert page.text.count("aria-invalid") == len(marked)


async def test_links_to_tried_reviews_have_their_words() -> None:
    page = await tried(
        [RULE], trial_within(1_048_576), [{"title": "Sharp", "review": "a"}, {"title": " ", "review": "b"}]
    )
    links = re.findall(r'<td dir="auto">(.*?)</td>', page.text, re.DOTALL)
    assert [text_of(each).split() for each in links] == [["Sharp", "a"], ["b"]]


async def test_tried_rules_are_described_by_the_labels_of_the_form() -> None:
    rule = {**RULE, "kind": "stars", "below": 3, "publishAfterHours": 24}
    page = await tried([rule], trial_within(1_048_576))
    assert "stars, hold; fewer stars than 3; approved after hours 24" in text_of(page.text)
