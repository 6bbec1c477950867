"""Authors' texts and the console's own texts on its pages."""

import re
from pathlib import Path
from typing import Any

import pytest

import console
from domain.permissions import Permission
from tests.support.app import client_of
from tests.support.console_pages import text_of
from tests.support.faked_interface import EVERYTHING, ROW, Answer, faked, get_page


@pytest.mark.parametrize("text", ["好 " + "评" * 2_000, "Good " + "buy-at-example.com/" * 100])
async def test_long_text_is_cut_at_the_exact_length(text: str) -> None:
    """Cutting at a space would hide most of a text that has hardly any: Chinese, or spam."""
    answers: dict[str, Any] = {"customerReviews/search": (200, {"results": [{**ROW, "review": text}]})}
    async with client_of(faked(EVERYTHING, answers)) as http:
        row = re.search(r'<p class="text" dir="auto">(.*?)</p>', (await http.get("/console/queue")).text, re.DOTALL)
        assert row
        assert row[1] == f"{text[:599]}…"
        assert f"{text[:79]}…" in text_of((await http.get("/console/reviews")).text)


def test_fields_for_texts_take_the_direction_of_what_is_typed() -> None:
    """Reviews are in any language. The direction of code is that of the page."""
    names = r"text|author|title|review|userName|reason|resolution|name"
    pages = "".join(page.read_text() for page in (Path(console.__file__).parent / "templates").glob("*.html"))
    textareas = re.findall(r"<textarea[^>]*>", pages)
    inputs = re.findall(rf'<input (?:type="search" )?name="(?:{names}|{{{{ name }}}})"[^>]*>', pages)
    fields = [each for each in (*textareas, *inputs) if "code" not in each]
    assert len(fields) == 14
    assert [each for each in fields if 'dir="auto"' not in each] == []


async def test_text_of_many_lines_is_cut_in_the_queue() -> None:
    """A review of line breaks would push all others out of the window. Beside its row is the whole text."""
    row = {**ROW, "review": "\n".join("abcdefghijklmnopqrst")}
    answers: dict[str, Any] = {
        "customerReviews/search": (200, {"results": [row]}),
        f"customerReviews/{row['id']}": (200, row),
    }
    async with client_of(faked(EVERYTHING, answers)) as http:
        page = (await http.get("/console/queue")).text
        headers = {"HX-Request": "true"}
        context = (await http.get(f"/console/reviews/{row['id']}/context", headers=headers)).text
    assert "\nm\nn\n…</p>" in page
    assert "\ns\nt</p>" in context


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("dead-letters", "No open dead letters."),
        ("dead-letters?state=", "No open dead letters."),
        ("dead-letters?state=discarded", "No dead letter matches these filters. All letters"),
        ("dead-letters?state=any", "these filters."),
        ("objects", "There are no rated objects yet."),
        ("objects?store=s", "No rated object matches these filters. All objects"),
        ("objects?store=s&q=camera", "No rated object has a matching name."),
        ("audit", "There are no entries yet. Every decision, change and deletion adds one."),
        ("audit?store=s", "No entry matches these filters. All entries"),
        ("reviews", "There are no reviews yet. They arrive by HTTP or Kafka"),
        ("reviews?done=deleted", "There are no reviews yet."),
        ("reviews?done=deleted", "Deleted permanently. Reviews · Plaudit"),
        ("reviews?q=camera", "No review matches these filters. All reviews"),
        ("reviews", "All reviews, newest first."),
        ("reviews?status=New", "Matching reviews, newest first."),
        ("objects", "All objects with approved reviews"),
        ("objects?q=camera", "Matching objects with approved reviews"),
        ("objects?store=s", "Store: s"),
        ("reviews?photos=unseen", "No review matches these filters. All reviews"),
        ("queue", "The oldest come first."),
        ("queue?order=newest", "The newest come first."),
    ],
)
async def test_empty_list_names_its_filter(path: str, expected: str) -> None:
    """The queue names its order: without JavaScript, which replaces that by the number of reviews."""
    nothing: Answer = (200, {"results": [], "next": None, "isPartial": False})
    answers = dict.fromkeys(("audit", "deadLetters", "rating/objects", "customerReviews/search"), nothing)
    words = text_of((await get_page(f"/console/{path}", answers)).text)
    assert expected in words
    if path.startswith("dead-letters"):
        assert words.endswith("All letters") is ("discarded" in path)


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


@pytest.mark.parametrize(
    ("language", "fact", "is_in_queue"),
    [
        ("de", "Language German Source", True),
        ("pt-BR", "Language Portuguese (Brazil) Source", True),
        ("zh_hant-tw", "Language Chinese (Traditional, Taiwan) Source", True),
        ("ca-valencia", "Language Catalan (ca-valencia) Source", True),
        ("bcl-PH", "Language bcl-PH Source", True),
        ("zxx", "Language no language detected Source", True),
        (None, "Language unknown Source", False),
    ],
)
async def test_language_is_shown_in_words(language: str | None, fact: str, *, is_in_queue: bool) -> None:
    row = {**ROW, "language": language}
    answers: dict[str, Any] = {"customerReviews/search": (200, {"results": [row]}), "customerReviews/r": (200, row)}
    assert fact in text_of((await get_page("/console/reviews/r", answers)).text)
    queue = text_of((await get_page("/console/queue", answers)).text)
    assert (f"· {fact.split(' ', 1)[1].removesuffix(' Source')}" in queue) is is_in_queue


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("stores", "customers who bought the object English (United States), German none"),
        ("templates", "Mail all stores German Hello"),
        ("templates/Mail?language=pt-BR", "For all stores, Portuguese (Brazil): that of all stores, German is used."),
        ("audit", "Mail, German"),
    ],
)
async def test_settings_name_languages(path: str, words: str) -> None:
    settings = {"reviewsEnabled": True, "purchaseRequired": True, "moderationRules": []}
    mail = {"name": "Mail", "storeId": None, "languageCode": "de", "subject": "Hello", "html": "", "text": ""}
    entry = dict.fromkeys(("action", "subject", "reviewId", "returnId", "storeId", "reasonCode", "reason"))
    changed = {
        **entry,
        "kind": "template",
        "fields": ["html"],
        "at": "2026-11-21T11:02:00.000Z",
        "templateName": "Mail",
        "languageCode": "de",
    }
    answers: dict[str, Any] = {
        "stores": (200, [{"id": "photo", "name": None, "languages": ["en-US", "de"], "settings": settings}]),
        "notificationTemplates": (200, [{**mail, "id": "1", "source": "saved"}]),
        "notificationTemplates/Mail": (200, {**mail, "source": "saved"}),
        "audit": (200, {"results": [changed], "next": None}),
    }
    assert words in text_of((await get_page(f"/console/{path}", answers)).text)


async def test_links_of_rows_have_names_that_differ() -> None:
    """Screen readers list the links of a page without their rows."""
    texts: list[dict[str, Any]] = [{"id": "1", "title": 'Say "cheese"'}, {"id": "2", "title": None, "review": "Sharp"}]
    rows = [{**ROW, **each, "userName": None} for each in texts]
    settings = {"reviewsEnabled": True, "purchaseRequired": True, "moderationRules": []}
    mail = {"name": "Mail", "languageCode": None, "subject": "How was it?", "source": "store"}
    store: dict[str, Any] = {"name": "Photo", "languages": [], "settings": settings}
    answers: dict[str, Any] = {
        "customerReviews/search": (200, {"results": rows}),
        "stores": (200, [{**store, "id": "photo"}, {**store, "id": "garden", "name": None}]),
        "notificationTemplates": (200, [{**mail, "id": scope, "storeId": scope} for scope in (None, "photo")]),
    }
    lists = {
        "queue": ["open Say &#34;cheese&#34;", "open Sharp"],
        "stores": ["none: rules of Photo", "none: rules of garden"],
        "templates": ["Mail for all stores, all languages", "Mail for photo, all languages"],
    }
    for path, names in lists.items():
        page = (await get_page(f"/console/{path}", answers)).text
        assert re.findall(r'<a [^>]*aria-label="((?:open|none|Mail)\b[^"]*)"', page) == names
    queue = (await get_page("/console/queue", answers)).text
    assert re.findall(r'aria-label="(Select [^"]*)"', queue) == [
        f"Select {words}, by somebody" for words in ("Say &#34;cheese&#34;", "Sharp")
    ]


def registered_type(name: str, *, is_resolved: bool) -> dict[str, Any]:
    fields = dict.fromkeys(("description", "fullTypeName", "entityIdFieldName"))
    return {"entityType": name, "knownChildrenTypes": [], "hasEntityResolver": is_resolved, **fields}


async def test_refusal_of_a_type_uses_the_page_labels() -> None:
    error = {"pointer": "/entityType", "code": "too-long", "message": "At most 128 characters"}
    answers: dict[str, Any] = {
        "entityTypes": (200, [registered_type("Product", is_resolved=True)]),
        f"entityTypes/{'x' * 129}/1": (422, {"type": "/problems/validation", "detail": "Invalid", "errors": [error]}),
    }
    page = await get_page("/console/entity-types", answers, type="x" * 129, id="1")
    assert "Type : At most 128 characters" in text_of(page.text)


async def test_ids_can_be_tried_for_types_with_a_resolver() -> None:
    types = [registered_type("Product", is_resolved=False), registered_type("Course", is_resolved=True)]
    for registered, options in ((types, ["Course"]), (types[:1], [])):
        page = (await get_page("/console/entity-types", {"entityTypes": (200, registered)})).text
        assert re.findall(r"<option[^>]*>(\w+)</option>", page) == options
        assert ("Try the id" in page) == bool(options)


@pytest.mark.parametrize("path", ["/console/audit", "/console/settings"])
async def test_missing_permission_names_whom_to_ask(path: str) -> None:
    """Also beside a form that the visitor may only read."""
    settings: dict[str, Any] = {"returnStatuses": [], "reminder": {}}
    words = text_of((await get_page(path, {"settings": (200, settings)}, [Permission.READ_SETTINGS])).text)
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
        (503, "query-timeout", "The database took too long. Try again in a moment; a search"),
        (422, "validation", "This was not accepted. Correct it, and try again."),
    ],
)
async def test_problems_are_described_in_words_of_the_pages(status: int, kind: str, words: str) -> None:
    error = {"pointer": "/searchPhrase", "code": "too-long", "message": "At most 128 characters"}
    problem = {"type": f"/problems/{kind}", "detail": "The request is too large for a skip.", "errors": [error]}
    page = await get_page("/console/reviews", {"customerReviews/search": (status, problem)})
    assert page.status_code == status
    assert words in text_of(page.text)
    assert "Search : At most 128 characters" in text_of(page.text)
    assert "skip" not in page.text.partition("<main")[2]
