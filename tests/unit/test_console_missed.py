"""The queue: changes that its page missed while it was hidden, and the row in focus after a step back."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.app import client_of
from tests.support.faked_interface import EVERYTHING, ROW, Asked, faked

DAYS = {
    id: f"2026-11-{day:02}T00:00:00.000Z"
    for id, day in (("1", 1), ("2", 2), ("2a", 2), ("2gone", 2), ("2z", 2), ("gone", 3), ("3", 4), ("last", 5))
}
BEFORE, SINCE, AFTER = (f"2026-11-25T0{hour}:00:00.000Z" for hour in range(3))


async def missed_ids(
    rows: Sequence[dict[str, Any]], reports: dict[str, tuple[int, Any]], own: Sequence[str] = ()
) -> list[str]:
    """The ids returned to a queue of reported reviews. `reports`: the responses for the reports of each review;
    `own`: the ids of the queue's rows."""

    def found(asked: Asked) -> tuple[int, Any]:
        return 200, {"results": rows if asked.body.get("sort") == "modifiedDate:desc" else []}

    about = {f"customerReviews/{id}/reports": response for id, response in reports.items()}
    answers = {"customerReviews/search": found, **about}
    async with client_of(faked(EVERYTHING, answers)) as http:
        form = {"since": SINCE, "missed": "1", "rows": [*own]}
        response = await http.post("/console/queue/since", params={"only": "reported"}, data=form)
        assert response.status_code == 200, response.text
        return list(response.json()["ids"])


def row(id: str, modified: str) -> dict[str, Any]:
    return {**ROW, "id": id, "reviewStatus": "Approved", "reports": 1, "modifiedDate": modified}


def reported_at(at: str) -> tuple[int, Any]:
    return 200, {"results": [{"at": at}]}


@pytest.mark.parametrize("kind", ["too-many-requests", "unavailable"])
async def test_failed_report_lookup_keeps_known_changes(kind: str) -> None:
    """One review was changed, and the reports of another can't be read."""
    busy = (503, {"type": f"https://plaudit.test/problems/{kind}"})
    reports = {"busy": busy, "again": reported_at(AFTER), "old": reported_at(BEFORE)}
    rows = [row("changed", AFTER), *(row(id, BEFORE) for id in reports)]
    assert await missed_ids(rows, reports) == ["changed", "again"]


async def test_own_rows_do_not_count_towards_the_lookup_limit() -> None:
    """At most 50 reviews are looked up; the page's own rows don't count."""
    own, others = ([f"{kind}-{n}" for n in range(50)] for kind in ("own", "other"))
    rows = [row(id, BEFORE) for id in (*own, *others)]
    reports = dict.fromkeys((*own, *others), reported_at(AFTER))
    assert await missed_ids(rows, reports, own) == others


@pytest.mark.parametrize(
    ("focus", "order", "expected"),
    [
        ("2", "", "2"),
        ("gone", "", "3"),
        ("gone", "newest", "2z"),
        ("2gone", "", "2z"),
        ("2gone", "newest", "2a"),
        ("last", "", "3"),
        ("", "", "1"),
    ],
)
async def test_row_behind_a_removed_one_is_in_focus(focus: str, order: str, expected: str) -> None:
    """As after a step back from the page on which it was decided or deleted: the row at the same place of the list.
    Reviews of one request have the same date."""

    def row(id: str) -> dict[str, Any]:
        return {**ROW, "id": id, "createdDate": DAYS[id]}

    def search(asked: Asked) -> tuple[int, Any]:
        rows = [row(id) for id in ("1", "2", "2a", "2z", "3")]
        return 200, {"results": rows[::-1] if order else rows}

    place = f"{DAYS[focus]},{focus}" if focus else ""
    async with client_of(faked(EVERYTHING, {"customerReviews/search": search})) as http:
        page = (await http.get("/console/queue", params={"focus": place, "order": order})).text
    assert re.findall(r'<li id="r-(\w+)"[^>]*class="focus"', page) == [expected]
