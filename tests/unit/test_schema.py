"""Versions that may run on a database before, during and after a migration step."""

from functools import reduce

import pytest

from domain.schema import (
    NEWEST,
    STEPS,
    Compatibility,
    SchemaMark,
    Step,
    compatibility,
    fresh_mark,
    mark_when_begun,
    mark_when_done,
    missing_steps,
    refusal,
)
from storage.migrations import WORK

REFUSED = {Compatibility.TOO_OLD, Compatibility.TOO_NEW}
EXPAND, CONTRACT = Step(5, "Add a field.", 4), Step(5, "Remove a field.", 5)


@pytest.mark.parametrize(
    ("mark", "known", "expected"),
    [
        (SchemaMark(4, 3), 4, Compatibility.NEWEST),
        (SchemaMark(3, 2), 4, Compatibility.BEHIND),
        (SchemaMark(1, 0), 4, Compatibility.BEHIND),
        (SchemaMark(0, 0), 4, Compatibility.TOO_OLD),
        (SchemaMark(5, 4), 4, Compatibility.AHEAD),
        (SchemaMark(5, 5), 4, Compatibility.TOO_NEW),
        (SchemaMark(6, 4), 4, Compatibility.AHEAD),
        (SchemaMark(), 1, Compatibility.BEHIND),
    ],
)
def test_version_runs_on_its_schema_and_neighbours(mark: SchemaMark, known: int, expected: Compatibility) -> None:
    found = compatibility(mark, known)
    assert found is expected
    assert (found in REFUSED) is (refusal(mark, known) is not None)


def test_rolling_upgrade_and_rollback_by_one_version() -> None:
    before = SchemaMark(4, 3)
    for mark in (before, mark_when_begun(before, EXPAND), mark_when_done(before, EXPAND)):
        assert compatibility(mark, 4) not in REFUSED
        assert compatibility(mark, 5) not in REFUSED
    assert mark_when_done(before, EXPAND) == SchemaMark(5, 4)


def test_contracting_step_excludes_older_versions_from_its_start() -> None:
    before = SchemaMark(4, 3)
    assert compatibility(before, 4) not in REFUSED
    for mark in (mark_when_begun(before, CONTRACT), mark_when_done(before, CONTRACT)):
        assert compatibility(mark, 4) is Compatibility.TOO_NEW
        assert compatibility(mark, 5) not in REFUSED


def test_refusal_says_what_to_do() -> None:
    assert refusal(SchemaMark(9, 8), 4) == (
        "The database has schema 9, which requires a version of Plaudit that knows at least schema 8; this one "
        "knows 4. Run a newer version."
    )
    assert refusal(SchemaMark(2, 1), 7) == (
        "The database has schema 2; this version of Plaudit runs on schemas 4 to 7. Run `plaudit migrate` of this "
        "version first."
    )


def test_steps_are_numbered_in_order_and_have_their_work() -> None:
    assert [step.number for step in STEPS] == list(range(1, NEWEST + 1))
    assert {step.number for step in STEPS} - set(WORK) == {2}  # it changes no document
    assert missing_steps(SchemaMark()) == STEPS
    assert missing_steps(fresh_mark()) == ()
    compatible = missing_steps(SchemaMark(), compatible=True)
    assert compatible == tuple(step for step in STEPS if step.least < step.number)[: len(compatible)]
    assert all(step.least in (step.number - 1, step.number) for step in STEPS)


def test_fresh_database_is_marked_as_fully_migrated() -> None:
    assert fresh_mark() == reduce(mark_when_done, STEPS, SchemaMark())


@pytest.mark.parametrize(("version", "places", "queue"), [(1, False, False), (2, True, False), (3, True, True)])
def test_features_of_a_schema(version: int, places: bool, queue: bool) -> None:
    mark = SchemaMark(version, version)
    assert (mark.has_places, mark.has_queue) == (places, queue)


def test_repeated_step_does_not_lower_the_mark() -> None:
    later = SchemaMark(7, 6)
    for step in (EXPAND, CONTRACT):
        assert mark_when_begun(later, step) == mark_when_done(later, step) == later
    assert mark_when_begun(SchemaMark(4, 3), EXPAND) == SchemaMark(4, 4)
