"""Authors' texts and the console's own texts on its pages."""

import re
from typing import Any

import pytest

from domain.permissions import Permission
from tests.support.app import client_of
from tests.support.console_pages import text_of
from tests.support.faked_interface import ROW, faked

EVERYTHING = [each.value for each in Permission]


@pytest.mark.parametrize("text", ["好 " + "评" * 2_000, "Good " + "buy-at-example.com/" * 100])
async def test_long_text_is_cut_at_the_exact_length(text: str) -> None:
    """Cutting at a space would hide most of a text that has hardly any: Chinese, or spam."""
    answers: dict[str, Any] = {"customerReviews/search": (200, {"results": [{**ROW, "review": text}]})}
    async with client_of(faked(EVERYTHING, answers)) as http:
        row = re.search(r'<p class="text" dir="auto">(.*?)</p>', (await http.get("/console/queue")).text, re.DOTALL)
        assert row
        assert row[1] == f"{text[:599]}…"
        assert f"{text[:79]}…" in text_of((await http.get("/console/reviews")).text)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("", "No open dead letters."),
        ("discarded", "No dead letter matches these filters. All letters"),
        ("any", "these filters."),
    ],
)
async def test_empty_list_of_dead_letters_names_the_filter(state: str, expected: str) -> None:
    answers: dict[str, Any] = {"deadLetters": (200, {"results": [], "next": None})}
    async with client_of(faked(EVERYTHING, answers)) as http:
        words = text_of((await http.get("/console/dead-letters", params={"state": state})).text)
    assert (expected in words, words.endswith("All letters")) == (True, state == "discarded"), words


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "There are no rated objects yet."),
        ({"store": "s"}, "No rated object matches these filters. All objects"),
        ({"store": "s", "q": "camera"}, "No rated object has a matching name."),
    ],
)
async def test_empty_list_of_objects_names_the_filter(query: dict[str, str], expected: str) -> None:
    answers: dict[str, Any] = {"rating/objects": (200, {"results": [], "next": None, "isPartial": False})}
    async with client_of(faked(EVERYTHING, answers)) as http:
        assert expected in text_of((await http.get("/console/objects", params=query)).text)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "There are no reviews yet."),
        ({"done": "deleted"}, "There are no reviews yet."),
        ({"q": "camera"}, "No review matches these filters. All reviews"),
        ({"photos": "unseen"}, "No review matches these filters. All reviews"),
    ],
)
async def test_empty_list_of_reviews_names_the_filter(query: dict[str, str], expected: str) -> None:
    answers: dict[str, Any] = {"customerReviews/search": (200, {"results": []})}
    async with client_of(faked(EVERYTHING, answers)) as http:
        assert expected in text_of((await http.get("/console/reviews", params=query)).text)


@pytest.mark.parametrize(("title", "shown"), [("Gut", ' lang="de">Gut<'), (" \u200b", ">(no title)<")])
async def test_console_texts_are_not_marked_with_the_review_language(title: str, shown: str) -> None:
    """A screen reader would read them in the author's language."""
    row = {**ROW, "language": "de", "title": title}
    answers: dict[str, Any] = {
        "customerReviews/search": (200, {"results": [row]}),
        f"customerReviews/{row['id']}": (200, row),
    }
    async with client_of(faked(EVERYTHING, answers)) as http:
        assert f"<bdi{shown}" in (await http.get("/console/queue")).text
        assert f'<h1 dir="auto"{shown}' in (await http.get(f"/console/reviews/{row['id']}")).text


async def test_refusal_of_a_type_uses_the_page_labels() -> None:
    unknown = dict.fromkeys(("description", "fullTypeName", "entityIdFieldName"))
    registered: dict[str, Any] = {
        "entityType": "Product",
        "knownChildrenTypes": [],
        "hasEntityResolver": True,
        **unknown,
    }
    error = {"pointer": "/entityType", "code": "too-long", "message": "At most 128 characters"}
    answers: dict[str, Any] = {
        "entityTypes": (200, [registered]),
        f"entityTypes/{'x' * 129}/1": (422, {"type": "/problems/validation", "detail": "Invalid", "errors": [error]}),
    }
    async with client_of(faked(EVERYTHING, answers)) as http:
        page = await http.get("/console/entity-types", params={"type": "x" * 129, "id": "1"})
    assert "Type : At most 128 characters" in text_of(page.text)


async def test_ids_can_be_tried_for_types_with_a_resolver() -> None:
    fields = dict.fromkeys(("description", "fullTypeName", "entityIdFieldName"))
    types: list[dict[str, Any]] = [
        {"entityType": name, "knownChildrenTypes": [], "hasEntityResolver": is_resolved, **fields}
        for name, is_resolved in (("Product", False), ("Course", True))
    ]
    for registered, options in ((types, ["Course"]), (types[:1], [])):
        answers: dict[str, Any] = {"entityTypes": (200, registered)}
        async with client_of(faked(EVERYTHING, answers)) as http:
            page = (await http.get("/console/entity-types")).text
        assert re.findall(r"<option[^>]*>(\w+)</option>", page) == options
        assert ("Try the id" in page) == bool(options)


@pytest.mark.parametrize("path", ["/console/audit", "/console/settings"])
async def test_missing_permission_names_whom_to_ask(path: str) -> None:
    """Also beside a form that the visitor may only read."""
    settings: dict[str, Any] = {"returnStatuses": [], "reminder": {}}
    answers: dict[str, Any] = {"settings": (200, settings)}
    async with client_of(faked([Permission.READ_SETTINGS.value], answers)) as http:
        words = text_of((await http.get(path)).text)
    assert "permission" in words
    assert "Ask your administrator for access" in words
    assert ("You are signed in as anna" in words) is (path == "/console/audit")


@pytest.mark.parametrize(
    ("reply", "words"), [(None, "Reply"), ({"text": "Thanks", "author": None}, "Change the reply")]
)
async def test_context_in_the_queue_leads_to_the_reply(reply: dict[str, Any] | None, words: str) -> None:
    row = {**ROW, "reply": reply}
    answers: dict[str, Any] = {"customerReviews/r": (200, row), "customerReviews/reviewList": (200, {"results": []})}
    readers = [each for each in EVERYTHING if each != Permission.REPLY_TO_REVIEWS]
    link = f'href="/console/reviews/r#reply">{words}</a>'
    for permissions, is_offered in ((EVERYTHING, True), (readers, False)):
        async with client_of(faked(permissions, answers)) as http:
            part = await http.get("/console/reviews/r/context", headers={"hx-request": "true"})
            assert (link in part.text) is is_offered
            assert ('id="reply"' in (await http.get("/console/reviews/r")).text) is is_offered


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (503, "query-timeout", "The database took too long. Use narrower filters"),
        (422, "validation", "This was not accepted. Correct it, and try again."),
    ],
)
async def test_problems_are_described_in_words_of_the_pages(status: int, kind: str, words: str) -> None:
    error = {"pointer": "/searchPhrase", "code": "too-long", "message": "At most 128 characters"}
    problem = {"type": f"/problems/{kind}", "detail": "The request is too large for a skip.", "errors": [error]}
    async with client_of(faked(EVERYTHING, {"customerReviews/search": (status, problem)})) as http:
        page = await http.get("/console/reviews")
    assert page.status_code == status
    assert words in text_of(page.text)
    assert "skip" not in page.text.partition("<main")[2]
