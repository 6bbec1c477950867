"""Commands: outcomes, marks, reused idempotency keys, and the commands that a process remembers."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, cast, get_args
from urllib.parse import unquote

import pytest
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st
from pymongo.errors import AutoReconnect
from starlette.requests import Request

from api.app import ROUTERS
from api.commands import Command, Commanded, Earlier, carry_out, earlier_attempt
from api.outcomes import caller_digest, item_result, not_applied, results_within
from api.outcomes_messages import MESSAGES
from api.recent_commands import RecentCommands
from api.services import Services, services_of
from api.waits import Key, Waits
from api.web.problems import ProblemError, ProblemKind
from domain.commands import KEY_REUSED, CommandMark, CommandOutcome, Outcome, command_outcome, mark_from
from domain.delivery import OutgoingMessage
from domain.feedback import FeedbackRefusal
from domain.images import UploadRefusal
from domain.moderation import ModerationRefusal
from domain.permissions import Caller
from domain.reviews_refusals import Refusal
from messaging.dead_letters_replays import ReplayObstacle
from messaging.decoding import mark_in
from messaging.envelope import of_command
from storage.outcomes import ItemOutcome
from storefront.app import ROUTERS as STOREFRONT

GOOD = (Outcome.APPLIED, Outcome.UNCHANGED)

digests = st.text("0123456789abcdef", max_size=32)
marks = st.builds(CommandMark, st.integers(1, 100_000), digests, digests)


@given(st.lists(st.sampled_from(Outcome), min_size=1))
def test_outcome_of_a_command(outcomes: list[Outcome]) -> None:
    expected = CommandOutcome.PARTIAL
    if all(outcome in GOOD for outcome in outcomes):
        expected = CommandOutcome.APPLIED
    elif not any(outcome in GOOD for outcome in outcomes):
        expected = CommandOutcome.REFUSED
    assert command_outcome(outcomes) is expected


@given(marks)
def test_mark_round_trips_as_text_and_header(mark: CommandMark) -> None:
    assert mark_from(str(mark)) == mark
    message = of_command(OutgoingMessage("topic", b"key", b"{}", (("name", None),)), "c1", mark)
    assert mark_in(message.headers) == mark


@pytest.mark.parametrize("text", [None, "", "1", "0  ", "x ab cd", "1 ab", "1 AB cd", "1 ab cd ef", "-1  ", "9" * 99])
def test_invalid_marks_are_ignored(text: str | None) -> None:
    assert mark_from(text) is None
    assert mark_in([("ce_commandmark", None if text is None else text.encode() + b"\xff")]) is None


def test_key_reuse_with_other_content_is_detected() -> None:
    one, other, without_key = CommandMark(1, "aa"), CommandMark(1, "bb"), CommandMark(1)
    assert one.is_of_another(other)
    assert not one.is_of_another(CommandMark(2, "aa", "cc"))
    assert not one.is_of_another(without_key)
    assert not without_key.is_of_another(one)


def test_caller_digests_are_distinct_and_anonymous() -> None:
    digests = {caller_digest(subject, id) for subject in ("anna", "bert") for id in ("c1", "c2")}
    assert len(digests) == 4
    assert not any("anna" in digest for digest in digests)
    assert caller_digest(None, "c1") == ""


def test_first_content_counts_once_accepted() -> None:
    recent = RecentCommands()
    first = CommandMark(1, "aa")
    assert recent.begin("c1", first) == first
    assert recent.accepted("c1") is None
    assert recent.begin("c1", CommandMark(1, "bb")) == first
    recent.accept("c1")
    recent.accept("c2")
    assert (recent.accepted("c1"), recent.accepted("c2")) == (first, None)
    # A repeat that isn't published yet doesn't undo the acceptance.
    recent.begin("c1", first)
    assert recent.accepted("c1") == first


def test_recent_commands_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("api.auth.timed_cache.monotonic", lambda: now)
    recent = RecentCommands(most=2, remembered_s=10)
    for id in ("c1", "c2", "c1", "c3"):
        recent.begin(id, CommandMark(1))
        recent.accept(id)
    assert [recent.accepted(id) is not None for id in ("c1", "c2", "c3")] == [True, False, True]
    now = 9.0
    recent.begin("c1", CommandMark(1))
    now = 12.0
    assert [recent.accepted(id) is not None for id in ("c1", "c3")] == [True, False]


class _EmptyQueue:
    """A queue without parked commands."""

    async def waiting_for(self, command_id: str) -> dict[str, CommandMark | None]:
        return {}


class _Outcomes:
    def __init__(self, answers: Sequence[ItemOutcome]) -> None:
        self.known = {answer.key: answer for answer in answers}

    async def answers(self, keys: Collection[Key]) -> dict[Key, ItemOutcome]:
        return {key: self.known[key] for key in keys if key in self.known}


class _Services:
    """The parts of the facade's services that a wait needs."""

    def __init__(self, *answers: ItemOutcome) -> None:
        self.outcomes = _Outcomes(answers)
        self.waits = Waits(self.outcomes.answers, most=1, most_per_client=1)
        self.parked_moderation = self.returns = _EmptyQueue()


async def test_key_reused_at_another_facade_is_reported() -> None:
    taken = ItemOutcome("c1", "a", Outcome.APPLIED, mark=CommandMark(2, "aa"))
    mine = ItemOutcome("c1", "b", Outcome.REFUSED, "status-changed", CommandMark(2, "bb"), "Approved", "anna")
    services = cast(Services, _Services(taken, mine))
    assert await results_within(services, "c1", CommandMark(2, "bb"), ["a", "b"], 5) == {
        "a": {"id": "a", "outcome": "refused", "reason": KEY_REUSED, "message": MESSAGES[KEY_REUSED]},
        "b": {
            "id": "b",
            "outcome": "refused",
            "reason": "status-changed",
            "message": MESSAGES["status-changed"],
            "status": "Approved",
            "moderator": "anna",
        },
    }


@pytest.mark.parametrize("kind", [FeedbackRefusal, ModerationRefusal, Refusal, ReplayObstacle, UploadRefusal])
def test_each_reason_has_a_message(kind: type[StrEnum]) -> None:
    assert [reason for reason in kind if not MESSAGES.get(reason)] == []


def test_common_message_of_the_refusals_is_in_the_problem() -> None:
    taken = item_result(ItemOutcome("c", "a", Outcome.REFUSED, Refusal.ID_TAKEN))
    assert not_applied([taken, {**taken, "id": "b"}]) == f"No item was applied (id-taken). {Refusal.ID_TAKEN.message}"
    missing = item_result(ItemOutcome("c", "d", Outcome.NOT_FOUND))
    assert not_applied([taken, missing]) == "No item was applied (id-taken, not-found). See `results`."


def test_message_of_a_decision_comes_first() -> None:
    """That of a return has the numbers."""
    answer = ItemOutcome("c1", "a", Outcome.REFUSED, "id-taken", message="Taken by a return")
    assert item_result(answer)["message"] == "Taken by a return"


async def _command_of(raw_path: str, key: str = "k", host: str = "127.0.0.1", subject: str | None = None) -> Command:
    scope: Any = {"type": "http", "method": "POST", "path": unquote(raw_path), "raw_path": raw_path.encode()}
    scope |= {"headers": [(b"idempotency-key", key.encode())], "query_string": b"", "client": (host, 1)}
    request = Request(scope)
    request.state.caller = Caller(subject, frozenset())
    request.state.body_digest = b""
    command: Command = await get_args(Commanded)[1].dependency(request)
    return command


async def _id_at(raw_path: str) -> str:
    return (await _command_of(raw_path)).id


async def test_spaces_in_paths_and_subjects_do_not_collide() -> None:
    path = "/api/stores/x%20b"
    ids = [
        (await _command_of(path, "c", subject="d")).id,
        (await _command_of("/api/stores/x", "b", subject="c d")).id,
        (await _command_of(f"{path}%20c", "d", subject="e")).id,
        (await _command_of(path, "c", subject="d e")).id,
    ]
    assert len(set(ids)) == len(ids)


async def test_waits_are_counted_by_network() -> None:
    one, same, other = [(await _command_of("/", host=f"2001:db8::{end}")).client for end in ("1", "2", "1:0:0:0:1")]
    assert one == same != other


async def test_command_id_depends_on_key_and_path() -> None:
    # The ids are stable, so that a client's retry after an update of the service is the same command.
    assert await _id_at("/api/customerReviews/x%25y/votes") == "30aa80b3-0765-52fd-bdd6-a714fc1f6ce3"
    assert await _id_at("/storefront/v1/s/Product/SKU%20123/reviews") == "52d92474-17f8-5b12-9ae4-342acbe35fe7"
    paths = ("a%2Fb/c", "a/b%2Fc", "a/b/c", "a%252Fb/c", "a%252Fb%2Fc", "a%2Fb%2Fc", "a%00b/c", "a%3Fb%2Fc")
    assert len({await _id_at(f"/storefront/v1/s/{path}/votes") for path in paths}) == len(paths)
    assert await _id_at("/api/customerReviews/a%2fb/votes") == await _id_at("/api/customerReviews/a%2Fb/votes")


def test_bodies_are_read_before_the_command_id_is_computed() -> None:
    """Parameters are resolved in their order."""
    command_of = get_args(Commanded)[1].dependency
    routes = [route for router in (*ROUTERS, *STOREFRONT) for route in router.routes if isinstance(route, APIRoute)]
    commands = 0
    for route in routes:
        calls: list[Any] = [needed.call for needed in route.dependant.dependencies]
        if command_of in calls:
            commands += 1
            after = calls[calls.index(command_of) + 1 :]
            assert all(call is services_of or "parameters" in getattr(call, "openapi", {}) for call in after), (
                route.path
            )
    assert commands >= 12


class _Facade:
    """The parts of the facade's services that publish commands; MongoDB can be made unavailable."""

    def __init__(self, *answers: ItemOutcome) -> None:
        self.stored = answers
        self.is_away = False
        self.published = 0
        self.outcomes = self.publisher = self
        self.recent_commands = RecentCommands()

    async def of_command(self, command_id: str, limit: int) -> list[ItemOutcome]:
        if self.is_away:
            raise AutoReconnect
        return [answer for answer in self.stored if answer.command_id == command_id][:limit]

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        self.published += 1

    async def send(self, content: str) -> int:
        """Carry out command `c1` with this content, and return the HTTP status."""
        command = Command("c1", None, repeatable=True, client="", content=content)
        try:
            return (await carry_out(cast(Services, self), command, ["a"], [])).status_code
        except ProblemError as problem:
            return problem.kind.status


async def test_refused_request_does_not_take_over_the_key() -> None:
    facade = _Facade(ItemOutcome("c1", "a", Outcome.APPLIED, mark=CommandMark(1, "aa")))
    assert await facade.send("bb") == 422
    facade.is_away = True
    assert [await facade.send(content) for content in ("aa", "bb")] == [202, 422]
    assert facade.published == 1


async def test_only_outcomes_of_the_same_request_are_reused() -> None:
    mine = CommandMark(3, "aa", "cc")
    facade = _Facade(
        ItemOutcome("c1", "mine", Outcome.APPLIED, mark=mine),
        ItemOutcome("c1", "other-content", Outcome.APPLIED, mark=CommandMark(3, "bb", "cc")),
        ItemOutcome("c1", "other-caller", Outcome.APPLIED, mark=CommandMark(3, "aa", "dd")),
        ItemOutcome("c1", "no-mark", Outcome.APPLIED),
        ItemOutcome("c2", "other-command", Outcome.APPLIED, mark=mine),
    )
    services = cast(Services, facade)
    command = Command("c1", None, repeatable=True, client="", content="aa", caller="cc")
    all_ids = frozenset({"mine", "other-content", "other-caller", "no-mark"})
    assert await earlier_attempt(services, command) == Earlier(mine, all_ids, frozenset({"mine"}))
    without_key = Command("c1", None, repeatable=False, client="", caller="cc")
    assert await earlier_attempt(services, without_key) == Earlier()
    with pytest.raises(ProblemError) as refused:
        await earlier_attempt(services, replace(command, content="ee"))
    assert refused.value.kind is ProblemKind.KEY_REUSED
    facade.is_away = True
    assert await earlier_attempt(services, command) == Earlier()


def test_mark_without_content_matches_no_request() -> None:
    command = Command("c1", None, repeatable=True, client="")
    assert not command.is_origin_of(CommandMark(1))
