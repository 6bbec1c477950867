"""Large dead letters in the console: edits are sent compactly, and never lost."""

import json
import re
from html import unescape
from typing import Any

import httpx
import pytest

from tests.support.app import client_of
from tests.support.console_pages import forms, text_of
from tests.support.faked_interface import EVERYTHING, Asked, faked

HERE = "/console/dead-letters/order-events/0/1"
MOST_BYTES = 1_048_576
LINES = [{"id": f"line {number}", "name": 'A "good"  one', "price": 1.5} for number in range(11_000)]
VALUE = json.dumps({"id": "o", "lines": LINES}, separators=(",", ":"))
LETTER = {
    **dict.fromkeys(("key", "replayedFrom", "refusal"), None),
    **{"place": "order-events/0/1", "topic": "order-events", "code": "invalid-message", "reason": "It is wrong"},
    **{"state": "open", "replayed": 0, "headers": [], "value": VALUE, "valueBytes": len(VALUE)},
    "at": "2026-11-25T00:00:00.000Z",
}
LARGE = {"title": "Too large", "detail": "A body may have 1048576 bytes here."}


def replay(asked: Asked) -> tuple[int, Any]:
    """The response of an API that accepts bodies up to 1 MiB."""
    if len(json.dumps(asked.body)) > MOST_BYTES:
        return 413, LARGE
    return 200, {"results": [{"id": "order-events/0/1", "outcome": "applied"}]}


@pytest.mark.long
async def test_edited_large_letter_is_sent_compactly() -> None:
    """The form's line breaks and indentation would make it too large. Numbers and strings are sent as typed."""
    asked: list[Asked] = []
    answers = {"deadLetters/order-events/0/1": (200, LETTER), "deadLetters/replay": replay}
    async with client_of(faked(EVERYTHING, answers, asked)) as http:
        shown = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", (await http.get(HERE)).text, re.DOTALL)
        assert shown
        typed = unescape(shown[1]).replace("line 10999", "the last  line").replace("1.5", "1.50").replace("\n", "\r\n")
        assert len(typed) > MOST_BYTES
        page = await http.post(HERE, data={"action": "try", "value": typed})
        assert (page.status_code, "Its consumer can read it in this form" in page.text) == (200, True), page.text[
            :2_000
        ]
        assert asked[-1].body["value"] == VALUE.replace("line 10999", "the last  line").replace("1.5", "1.50")
        broken = f"{typed}}}"
        page = await http.post(HERE, data={"action": "replay", "value": broken})
    assert page.status_code == 413
    assert "A body may have 1048576 bytes here." in text_of(page.text)
    assert broken.replace("\r\n", "\n") in unescape(page.text)


async def test_accepted_replay_keeps_the_filters_of_the_list() -> None:
    """Also after a try, and if no letter is selected."""
    answers = {
        "deadLetters": (200, {"results": [LETTER], "next": None}),
        "deadLetters/replay": lambda asked: (
            (200, replay(asked)[1]) if asked.body.get("dryRun") else (202, {"outcome": "accepted"})
        ),
    }
    place = str(LETTER["place"])
    async with client_of(faked(EVERYTHING, answers)) as http:

        async def act(page: str, action: str, *places: str) -> httpx.Response:
            (form,) = [each for each in forms(page) if each.method == "POST"]
            return await http.post(form.action, data={**form.fields, "action": action, "places": list(places)})

        shown = (await http.get("/console/dead-letters?topic=order-events&code=invalid-message&done=saved")).text
        tried = (await act(shown, "try", place)).text
        for page in (shown, tried):
            accepted = await act(page, "replay", place)
            address = "/console/dead-letters?topic=order-events&code=invalid-message"
            assert (accepted.status_code, accepted.headers["location"]) == (303, f"{address}&done=accepted")
        refused = await act(shown, "replay")
        assert refused.status_code == 422
        for page in (tried, refused.text):
            assert f'href="{address}"' in unescape(page)


async def form_text_of(value: str) -> str:
    """The form's text on the page of a letter with this value."""
    letter = {**LETTER, "value": value, "valueBytes": len(value)}
    answers = {"deadLetters/order-events/0/1": (200, letter)}
    async with client_of(faked(EVERYTHING, answers)) as http:
        page = await http.get(HERE)
    shown = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page.text, re.DOTALL)
    assert shown, (page.status_code, page.text[:2_000])
    return unescape(shown[1])


async def test_deeply_indented_letter_is_edited_unformatted() -> None:
    """Each element would be indented by 1,800 spaces: 20 MB for 20 KB, and a GB for a MiB."""
    nested = "[" * 900 + ",".join(["1"] * 10_000) + "]" * 900
    assert await form_text_of(nested) == nested
    assert await form_text_of('[[[[{"a":[1,2]}]]]]') == json.dumps([[[[{"a": [1, 2]}]]]], indent=2)


async def test_too_deeply_nested_letter_is_edited_unformatted() -> None:
    for depth in range(950, 1_010):
        nested = "[" * depth + "]" * depth
        assert await form_text_of(nested) == nested, depth
