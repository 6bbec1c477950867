"""Decisions on all results of a filter, limited to reviews unchanged since the page was opened."""

from typing import Any

import pytest

from domain.moderation_rules_text import text_hash
from tests.support.app import client_of
from tests.support.console_pages import text_of
from tests.support.faked_interface import EVERYTHING, ROW, Asked, faked

BEFORE, UNTIL, AFTER = (f"2026-11-25T0{hour}:00:00.000Z" for hour in range(3))


def row(id: str, modified: str, reports: int = 0) -> dict[str, Any]:
    return {**ROW, "id": id, "createdDate": BEFORE, "modifiedDate": modified, "reports": reports}


class Interface:
    """An API with these waiting reviews, one per page; decisions take effect at once."""

    def __init__(self, rows: list[dict[str, Any]], reported: dict[str, str]) -> None:
        self.rows = rows
        self.decided: list[str] = []
        self.answers: dict[str, Any] = {
            "customerReviews/search": self.found,
            "customerReviews/reviewList": lambda _: (200, {"results": [], "totalCount": len(self.waiting)}),
            "customerReviews/reject": self.decide,
            **{f"customerReviews/{id}/reports": (200, {"results": [{"at": at}]}) for id, at in reported.items()},
        }

    @property
    def waiting(self) -> list[dict[str, Any]]:
        return [each for each in self.rows if each["id"] not in self.decided]

    def found(self, asked: Asked) -> tuple[int, Any]:
        at = int(asked.body.get("after") or 0)
        after = {"next": str(at + 1)} if at + 1 < len(self.waiting) else {}
        return 200, {"results": self.waiting[at : at + 1], **after}

    def decide(self, asked: Asked) -> tuple[int, Any]:
        ids = asked.body["ids"]
        assert asked.body["textHashes"] == {id: text_hash(ROW["title"], ROW["review"]) for id in ids}
        self.decided += ids
        results = [{"id": id, "outcome": "applied"} for id in ids]
        return 200, {"commandId": "c", "ids": ids, "outcome": "applied", "results": results}


@pytest.mark.parametrize(
    ("only", "rows", "reported"),
    [
        ("", [row("edited", AFTER), row("old", BEFORE), row("reset", AFTER), row("last", UNTIL)], {}),
        (
            "reported",
            [row("again", BEFORE, 2), row("old", BEFORE, 1), row("edited", AFTER, 1), row("last", BEFORE, 1)],
            {"again": AFTER, "old": BEFORE, "edited": BEFORE, "last": UNTIL},
        ),
    ],
)
async def test_reviews_changed_or_reported_since_are_skipped(
    only: str, rows: list[dict[str, Any]], reported: dict[str, str]
) -> None:
    """Also if changed reviews precede all decided ones. Nothing is left to continue with once only they remain."""
    interface = Interface(rows, reported)
    here, sent = "/console/queue/all", {"action": "reject", "reasonCode": "spam"}
    async with client_of(faked(EVERYTHING, interface.answers)) as http:
        for step in range(3):
            page = await http.post(here, params={"until": UNTIL, "only": only}, data={**sent, "n-applied": str(step)})
            assert page.status_code == 200, page.text
    assert interface.decided == ["old", "last"]
    words = text_of(page.text)
    assert "0 wait, 2 are done" in words
    assert "2 skipped: changed in the meantime" in words
    assert "Continue" not in words
