"""Previews in the console of settings and mail templates that can't be saved."""

import re
from html import unescape
from typing import Any

import pytest

from tests.support.app import client_of
from tests.support.console_pages import text_of
from tests.support.faked_interface import EVERYTHING, Asked, faked, post_form

STORE: dict[str, Any] = {
    **{"id": "s", "name": None, "email": None, "languages": []},
    "settings": {"reviewsEnabled": True, "moderationRules": []},
}
GENERAL: dict[str, Any] = {"returnStatuses": [], "reminder": {}}
MAIL: dict[str, Any] = {
    **{"name": "Mail", "storeId": None, "languageCode": None, "source": "built-in"},
    **{"subject": "Saved", "text": "Saved", "html": "Saved"},
}


@pytest.mark.parametrize(
    ("path", "name", "typed", "label"),
    [
        ("/console/stores/s", "email", "not an address", "E-mail address"),
        ("/console/stores/s", "settings.storefrontOrigins", "shop", "Origins of web pages"),
        ("/console/settings", "reminder.cron", "daily", "Schedule of reminders"),
        ("/console/settings", "reminder.daysInStatus", "ten", "Days in that status before a reminder"),
    ],
)
async def test_value_that_cannot_be_saved_is_not_previewed(path: str, name: str, typed: str, label: str) -> None:
    asked: list[Asked] = []
    app = faked(EVERYTHING, {"stores/s": (200, STORE), "settings": (200, GENERAL)}, asked)
    async with client_of(app) as http:
        page = await http.post(path, data={name: typed, "step": "review"})
    assert page.status_code == 422
    assert re.search(f'name="{name}"[^>]*aria-invalid="true"', page.text)
    assert typed in page.text
    assert f"{label}" in text_of(page.text.partition('role="alert"')[2].partition("</div>")[0])
    assert "would change" not in page.text
    assert {each.method for each in asked} == {"GET"}


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        ({"errors": [{"pointer": "/html", "code": "invalid", "message": "Line 1: Expected a tag"}]}, "be previewed"),
        ({"detail": "Not now"}, "Press “Preview” to see what you typed."),
    ],
)
async def test_refused_template_has_no_preview_of_the_saved_one(refusal: dict[str, Any], expected: str) -> None:
    def answer(asked: Asked) -> tuple[int, Any]:
        return (200, MAIL) if asked.method == "GET" else (422, refusal)

    async with client_of(faked(EVERYTHING, {"notificationTemplates/Mail": answer})) as http:
        opened = (await http.get("/console/templates/Mail")).text
        seen = re.search(r'name="seen" value="(\w+)"', opened)
        assert seen
        typed = {"subject": "S", "text": "T", "html": "{% if %}", "seen": seen[1], "step": "save"}
        page = await http.post("/console/templates/Mail", data=typed)
    assert page.status_code == 422
    assert re.search("<iframe[^>]* src=", opened)
    frame = re.search('<iframe[^>]* srcdoc="([^"]*)"', page.text)
    assert frame
    assert expected in text_of(unescape(frame[1]))
    assert not re.search("<iframe[^>]* src=", page.text)


async def test_refused_removal_of_a_template_keeps_the_preview_of_the_saved_one() -> None:
    form = {"seen": "of another version", "step": "delete"}
    answers = {"notificationTemplates/Mail": (200, {**MAIL, "source": "all"})}
    page = await post_form("/console/templates/Mail", form, answers)
    assert page.status_code == 409
    assert re.search("<iframe[^>]* src=", page.text)
