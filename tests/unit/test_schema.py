"""Versions that may run on a database, before, during and after a step."""

from functools import reduce

import pytest

from domain.schema import (
    NEWEST,
    STEPS,
    SchemaMark,
    Standing,
    Step,
    begun,
    done,
    fresh_mark,
    missing_steps,
    refusal,
    standing,
)
from storage.migrations import WORK

REFUSED = {Standing.TOO_OLD, Standing.TOO_NEW}
EXPAND, CONTRACT = Step(5, "Add a field.", 4), Step(5, "Remove a field.", 5)


@pytest.mark.parametrize(
    ("mark", "known", "expected"),
    [
        (SchemaMark(4, 3), 4, Standing.NEWEST),
        (SchemaMark(3, 2), 4, Standing.BEHIND),
        (SchemaMark(1, 0), 4, Standing.BEHIND),
        (SchemaMark(0, 0), 4, Standing.TOO_OLD),
        (SchemaMark(5, 4), 4, Standing.AHEAD),
        (SchemaMark(5, 5), 4, Standing.TOO_NEW),
        (SchemaMark(6, 4), 4, Standing.AHEAD),
        (SchemaMark(), 1, Standing.BEHIND),
    ],
)
def test_a_version_runs_on_its_schema_and_its_neighbours(mark: SchemaMark, known: int, expected: Standing) -> None:
    found = standing(mark, known)
    assert found is expected
    assert (found in REFUSED) is (refusal(mark, known) is not None)


def test_a_rolling_upgrade_and_a_rollback_by_one_version() -> None:
    before = SchemaMark(4, 3)
    for mark in (before, begun(before, EXPAND), done(before, EXPAND)):
        assert standing(mark, 4) not in REFUSED
        assert standing(mark, 5) not in REFUSED
    assert done(before, EXPAND) == SchemaMark(5, 4)


def test_a_step_that_contracts_shuts_older_versions_out_from_its_beginning() -> None:
    before = SchemaMark(4, 3)
    assert standing(before, 4) not in REFUSED
    for mark in (begun(before, CONTRACT), done(before, CONTRACT)):
        assert standing(mark, 4) is Standing.TOO_NEW
        assert standing(mark, 5) not in REFUSED


def test_a_refusal_says_what_to_do() -> None:
    assert refusal(SchemaMark(9, 8), 4) == (
        "The database has schema 9, which takes a version of Plaudit that knows schema 8 at least; this one knows 4. "
        "Run a newer version."
    )
    assert refusal(SchemaMark(2, 1), 7) == (
        "The database has schema 2; this version of Plaudit runs on schemas 4 to 7. Run `plaudit migrate` of this "
        "version first."
    )


def test_the_steps_are_numbered_in_their_order_and_have_their_work() -> None:
    assert [step.number for step in STEPS] == list(range(1, NEWEST + 1))
    assert {step.number for step in STEPS} - set(WORK) == {2}  # it changes no document
    assert missing_steps(SchemaMark()) == STEPS
    assert missing_steps(fresh_mark()) == ()
    compatible = missing_steps(SchemaMark(), compatible=True)
    assert compatible == tuple(step for step in STEPS if step.least < step.number)[: len(compatible)]
    assert all(step.least in (step.number - 1, step.number) for step in STEPS)


def test_a_fresh_database_is_marked_as_if_all_steps_had_been_made() -> None:
    assert fresh_mark() == reduce(done, STEPS, SchemaMark())


@pytest.mark.parametrize(("version", "places", "queue"), [(1, False, False), (2, True, False), (3, True, True)])
def test_what_a_schema_has(version: int, places: bool, queue: bool) -> None:
    mark = SchemaMark(version, version)
    assert (mark.has_places, mark.has_queue) == (places, queue)


def test_a_step_that_is_made_again_takes_nothing_back() -> None:
    later = SchemaMark(7, 6)
    for step in (EXPAND, CONTRACT):
        assert begun(later, step) == done(later, step) == later
    assert begun(SchemaMark(4, 3), EXPAND) == SchemaMark(4, 4)
