"""Trials of moderation rules through the endpoint and the command line. Nothing is written."""

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from domain.moderation_rules import NO_RULING, RuleInput, RuleSet, Ruling
from plaudit.cli.main import app
from plaudit.config import Settings
from plaudit.terminal import Terminal
from plaudit.tools import moderation_rules
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports import rows
from plaudit.tools.imports.mapping import ColumnMapping
from plaudit.tools.moderation_rules import RuleTrialOptions, run_trial
from tests.support.app import app_without_servers, client_of

RULES: list[dict[str, Any]] = [
    {"id": "words", "kind": "words", "outcome": "hold", "words": ["scam"]},
    {"id": "twice", "kind": "duplicate", "outcome": "flag"},
    {"id": "low", "kind": "stars", "outcome": "hold", "below": 2, "publishAfterHours": 24},
    {"id": "bought", "kind": "verified", "outcome": "approve"},
]
REVIEWS: list[dict[str, Any]] = [
    {"EntityId": "e", "EntityType": "Product", "review": "A scam", "rating": 5},
    {"EntityId": "e", "EntityType": "Product", "review": "a SCAM", "rating": 5},
    {"EntityId": "e", "EntityType": "Product", "review": "Broken", "rating": 1},
    {"id": "r", "EntityId": "e", "EntityType": "Product", "review": "Sharp", "rating": 5, "verifiedPurchase": True},
    {"EntityId": "e", "EntityType": "Product", "review": "Fair", "rating": 3},
    {"EntityId": "e", "EntityType": "Product", "review": "Fine", "rating": 3, "userName": "Scam"},
]
URL = "/api/stores/s/moderationRules/try"


def row(id: str, fired: list[str], outcome: str | None, **more: Any) -> dict[str, Any]:
    flags = [] if outcome == "approve" else fired
    shown = {"id": id, "fired": fired, "outcome": outcome, "reviewStatus": "New", "flags": flags}
    return {**shown, "approvedBy": None, "publishAfterHours": None, **more}


async def test_trial_leaves_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, and so fails, if the work is done on the event loop."""
    answered = threading.Event()

    def judge_blocking(rules: RuleSet, review: RuleInput) -> Ruling:
        assert answered.wait(30)
        return NO_RULING

    monkeypatch.setattr(RuleSet, "judge", judge_blocking)
    async with app_without_servers() as application, client_of(application) as http:
        trial = asyncio.ensure_future(http.post(URL, json={"reviews": REVIEWS, "rules": RULES}))
        assert (await http.get("/health/live")).is_success
        await asyncio.sleep(0.1)
        answered.set()
        assert (await trial).is_success


async def test_concurrent_trials_share_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def judge_slowly(rules: RuleSet, review: RuleInput) -> Ruling:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)  # gives a second thread time to start
        with lock:
            running -= 1
        return NO_RULING

    monkeypatch.setattr(RuleSet, "judge", judge_slowly)
    async with app_without_servers() as application, client_of(application) as http:
        trials = [http.post(URL, json={"reviews": REVIEWS, "rules": RULES}) for _ in range(3)]
        assert all(answer.is_success for answer in await asyncio.gather(*trials))
    assert most == 1


async def test_trial_of_rules() -> None:
    async with app_without_servers() as application, client_of(application) as http:
        answer = await http.post(URL, json={"reviews": REVIEWS, "rules": RULES})
        assert (answer.status_code, answer.json()) == (
            200,
            {
                "results": [
                    row("/0", ["words"], "hold"),
                    row("/1", ["words", "twice"], "hold"),
                    row("/2", ["low"], "hold", publishAfterHours=24),
                    row("r", ["bought"], "approve", reviewStatus="Approved", approvedBy="bought"),
                    row("/4", [], None),
                    row("/5", ["words"], "hold"),
                ],
                "summary": {
                    **{"reviews": 6, "approved": 1, "held": 4, "flagged": 0, "untouched": 1},
                    "rules": {"words": 3, "twice": 1, "low": 1, "bought": 1},
                },
            },
        )
        wrongs: list[dict[str, Any]] = [{"reviews": []}, {"reviews": REVIEWS, "rules": [{**RULES[0], "kind": "mood"}]}]
        for wrong in wrongs:
            assert (await http.post(URL, json=wrong)).status_code == 422


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_trial_from_command_line(tmp_path: Path, format: str) -> None:
    reviews, rules = tmp_path / f"reviews.{format}", tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    if format == "jsonl":
        voted = {"reviewId": "r", "votes": [{"userId": "u", "helpful": True}]}
        reviews.write_text("\n".join(json.dumps(each) for each in [*REVIEWS, voted, {"rating": 9}]))
    else:
        names = ["id", "EntityId", "review", "rating", "verifiedPurchase", "userName"]
        lines = [",".join(str(each.get(name, "")) for name in names) for each in REVIEWS]
        reviews.write_text("\n".join([",".join(names), *lines, ",,,9,,"]))
    done = CliRunner().invoke(app, ["rules", "try", str(reviews), "--rules", str(rules)])
    assert done.exit_code == 1, done.output
    assert "r: approved by bought" in done.output
    assert "held by words, twice" in done.output
    assert "held by low, and approved after 24 hours" in done.output
    assert "no rule fires" in done.output
    assert "6 reviews: 1 approved, 4 held, 0 flagged, 1 unaffected; 1 bad row." in done.output


class Recorder(Terminal):
    """Records the printed lines of two terminals in one order, and the JSON result."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines
        self.result: Any = None

    def print(self, *objects: Any, **options: Any) -> None:
        self.lines.append(str(objects[0]))

    def set_result(self, value: Any) -> None:
        self.result = value


async def test_bad_rows_are_printed_at_once_and_the_first_are_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moderation_rules, "_MOST_LISTED", 2)
    reviews, rules = tmp_path / "reviews.jsonl", tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    reviews.write_text("\n".join(json.dumps(each) for each in (*[{"rating": 9}] * 3, *REVIEWS)))
    lines: list[str] = []
    out, errors = Recorder(lines), Recorder(lines)
    order = RuleTrialOptions(reviews, FileFormat.JSONL, ColumnMapping(), rules=rules)
    assert await run_trial(Settings(), out, errors, order) == 3
    assert [line.partition(": ")[0] for line in lines[:3]] == ["line 1", "line 2", "line 3"]
    assert (out.result["badRows"], out.result["badRowCount"]) == (lines[:2], 3)
    assert out.result["summary"]["reviews"] == 6


@pytest.mark.parametrize("row", [{"rating": 9}, {"reviewId": "r", "votes": [{"userId": "u", "helpful": True}]}])
async def test_trial_without_valid_rows_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]
) -> None:
    monkeypatch.setattr(rows, "_PAUSE_EVERY_S", 0)
    reviews, rules = tmp_path / "reviews.jsonl", tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    reviews.write_text("\n".join([json.dumps(row)] * 5))
    order = RuleTrialOptions(reviews, FileFormat.JSONL, ColumnMapping(), rules=rules)
    lines: list[str] = []
    trial = asyncio.create_task(run_trial(Settings(), Recorder(lines), Recorder(lines), order))
    asyncio.get_running_loop().call_soon(trial.cancel)
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert len(lines) <= 1


def test_pipe_is_refused(tmp_path: Path) -> None:
    pipe, rules = tmp_path / "pipe.jsonl", tmp_path / "rules.json"
    os.mkfifo(pipe)
    rules.write_text("[]")
    done = CliRunner().invoke(app, ["rules", "try", str(pipe), "--rules", str(rules)])
    assert (done.exit_code, "save it as one first" in done.output) == (2, True)


def test_wrong_usage(tmp_path: Path) -> None:
    reviews, rules = tmp_path / "reviews.jsonl", tmp_path / "rules.json"
    reviews.write_text("")
    rules.write_text('[{"id": "a"}]')
    for options in ([], ["--rules", str(rules)]):
        assert CliRunner().invoke(app, ["rules", "try", str(reviews), *options]).exit_code == 2


ENGLISH = {"id": "english", "kind": "languages", "outcome": "hold", "languages": ["en"]}
BOUGHT = {"id": "bought", "kind": "verified", "outcome": "approve"}


@pytest.mark.parametrize(
    ("content", "rule", "mapped", "fires"),
    [
        ("entityId,review,rating,lang,language\na,gut,4,en,German\n", ENGLISH, ["lang=language"], False),
        ("entityId,review,rating,lang,language\na,gut,4,de,en\n", ENGLISH, ["lang=language"], True),
        ("entityId,review,rating,Language\na,good,4, EN\n", ENGLISH, [], False),
        ("entityId,review,rating,verified_purchase\na,good,4, true\n", BOUGHT, [], True),
        ("entityId,review,rating,Verified Purchase\na,good,4,no\n", BOUGHT, [], False),
    ],
)
def test_columns_are_read_as_by_an_import(
    tmp_path: Path, content: str, rule: dict[str, Any], mapped: list[str], fires: bool
) -> None:
    file, rules = tmp_path / "reviews.csv", tmp_path / "rules.json"
    file.write_text(content)
    rules.write_text(json.dumps([rule]))
    arguments = ["rules", "try", str(file), "--rules", str(rules), "--json"]
    result = CliRunner().invoke(app, [*arguments, *(option for each in mapped for option in ("--map", each))])
    assert result.exit_code == 0, result.output
    (judged,) = json.loads(result.stdout)["reviews"]
    assert judged["fired"] == ([rule["id"]] if fires else [])
