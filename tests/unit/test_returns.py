from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID, uuid5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.delivery import RecordPosition, Seen
from domain.orders import Order, OrderLine, after_event
from domain.returns import (
    DeletedReturn,
    Return,
    ReturnRequest,
    changed_return,
    created_return,
    decide,
    with_return,
)
from domain.returns_lines import LineRequest, ReturnLine
from domain.returns_refusals import RefusalReason, ReturnRefusal, crowded_order
from domain.returns_statuses import DEFAULT_STATUSES, ReturnStatus
from tests.support.domain_orders import order_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
PRICES = {"a": 9.5, "b": None, "c": 3.0}
CANCELED = ReturnStatus.CANCELED
LINES = UUID("0c5d8a1e-52e6-5d2b-8b57-d1f2a3c4e5f6")

Lines = list[tuple[str, int]]


@dataclass(frozen=True)
class OrderStep:
    """The order has these quantities from this minute on; a past minute makes a late event."""

    quantities: dict[str, int]
    minute: int


@dataclass(frozen=True)
class ReturnStep:
    """A return is created or changed."""

    kind: Literal["create", "change"]
    id: str
    status: ReturnStatus | None
    lines: Lines | None


def order_with(quantities: dict[str, int], minute: int = 0) -> Order:
    lines = tuple(OrderLine(id, None, None, quantity, PRICES[id]) for id, quantity in quantities.items())
    return order_of(lines, store_id=None, modified=AT.replace(minute=minute), body=repr(quantities).encode())


def a_request(step: ReturnStep, offset: int = 0) -> ReturnRequest:
    lines = tuple(LineRequest(*line) for line in step.lines) if step.lines is not None else None
    position = RecordPosition(0, offset, 1_000 + offset)
    return ReturnRequest(step.id, "o", step.kind == "create", position, AT, status=step.status, lines=lines)


def create(order: Order, *lines: tuple[str, int], status: ReturnStatus | None = None) -> Return | list[RefusalReason]:
    return created_return(a_request(ReturnStep("create", "r", status, list(lines))), order, "RET1")


def stored(order: Order, *lines: tuple[str, int], status: ReturnStatus | None = None) -> tuple[Return, Order]:
    made = allowed(create(order, *lines, status=status))
    return made, with_return(order, None, made)


def allowed(decision: object) -> Return:
    """Return the return of a decision that must not be a refusal."""
    assert isinstance(decision, Return), decision
    return decision


def codes(decision: object) -> list[ReturnRefusal]:
    """Return the reasons of a refusal."""
    assert isinstance(decision, list), decision
    return [reason.code for reason in decision]


def change(
    known: Return, order: Order, status: ReturnStatus | None = None, lines: Lines | None = None
) -> Return | list[RefusalReason]:
    return changed_return(known, a_request(ReturnStep("change", known.id, status, lines), 1), order)


@dataclass
class Model:
    """The rules in their simplest form."""

    ordered: dict[str, int] = field(default_factory=dict)
    minute: int = -1
    returns: dict[str, tuple[ReturnStatus, Lines]] = field(default_factory=dict)

    def taken(self, line: str, without: str | None = None) -> int:
        return sum(
            quantity
            for id, (status, lines) in self.returns.items()
            for name, quantity in lines
            if id != without and name == line and status != CANCELED
        )

    def available(self) -> dict[str, int]:
        return {line: max(0, quantity - self.taken(line)) for line, quantity in self.ordered.items()}

    def apply_order(self, step: OrderStep) -> None:
        if step.minute >= self.minute:
            self.ordered, self.minute = step.quantities, step.minute

    def try_return(self, step: ReturnStep) -> bool:
        """Apply the step if the rules allow it, and return if they do."""
        known = self.returns.get(step.id)
        if (known is None) != (step.kind == "create"):
            return False
        status, lines = known or (ReturnStatus.NEW, [])
        before = Counter[str]()
        for line, quantity in lines:
            before[line] += quantity
        status, lines = step.status or status, step.lines if step.lines is not None else lines
        for line in {line for line, _ in lines}:
            requested = sum(quantity for name, quantity in lines if name == line)
            wanted = 0 if status == CANCELED else requested
            own = self.taken(line) - self.taken(line, without=step.id)
            keeps = requested <= before.get(line, 0) and wanted <= own
            left = max(0, self.ordered.get(line, 0) - self.taken(line, without=step.id))
            most = max(self.ordered.get(line, 0), before.get(line, 0))
            if not keeps and (line not in self.ordered or wanted > left or requested > most):
                return False
        self.returns[step.id] = (status, lines)
        return True


# Close to the ordered quantities, so that about as many requests are refused as accepted.
quantities = st.fixed_dictionaries({"a": st.integers(2, 6)}, optional={"b": st.integers(0, 6), "c": st.integers(0, 2)})
line_ids = st.sampled_from("aaabc")
some_lines = st.lists(st.tuples(line_ids, st.integers(1, 4)), min_size=1, max_size=3)
some_status = st.sampled_from([None, ReturnStatus.NEW, ReturnStatus.APPROVED, CANCELED, CANCELED])
return_steps = st.one_of(
    st.builds(ReturnStep, st.just("create"), st.sampled_from("rst"), st.none() | some_status, some_lines),
    st.builds(ReturnStep, st.just("change"), st.sampled_from("rst"), some_status, st.none() | some_lines),
)
steps = st.lists(
    st.one_of(return_steps, return_steps, st.builds(OrderStep, quantities, st.integers(1, 59))), max_size=25
)


@pytest.mark.long
@settings(max_examples=300)
@given(quantities, steps)
def test_history_matches_a_plain_model(first: dict[str, int], history: list[OrderStep | ReturnStep]) -> None:
    model, returns = Model(first, 0), dict[str, Return]()
    order = after_event(None, order_with(first), "first")
    minutes = set[int]()
    for offset, step in enumerate(history):
        if isinstance(step, OrderStep):
            # No two events of the same minute: another test covers which of them counts.
            if step.minute not in minutes:
                minutes.add(step.minute)
                model.apply_order(step)
                order = after_event(order, order_with(step.quantities, step.minute), repr(step))
        else:
            accepted = model.try_return(step)
            known, request = returns.get(step.id), a_request(step, offset)
            if (known is None) == request.is_new:
                after = changed_return(known, request, order) if known else created_return(request, order, step.id)
                assert isinstance(after, Return) == accepted, after
                if isinstance(after, Return):
                    order, returns[step.id] = with_return(order, known, after), after
        assert order.available() == model.available()
        assert order.returned == {line: model.taken(line) for line in "abc" if model.taken(line)}
        assert {id: r.status for id, r in returns.items()} == {id: status for id, (status, _) in model.returns.items()}


@given(quantities, st.lists(return_steps, max_size=30))
def test_returned_quantity_never_exceeds_ordered(ordered: dict[str, int], history: list[ReturnStep]) -> None:
    order, returns = order_with(ordered), dict[str, Return]()
    for offset, step in enumerate(history):
        known, request = returns.get(step.id), a_request(step, offset)
        after = changed_return(known, request, order) if known else created_return(request, order, step.id)
        if isinstance(after, Return):
            order, returns[step.id] = with_return(order, known, after), after
        assert all(0 < quantity <= ordered[line] for line, quantity in order.returned.items())


def test_price_defaults_to_that_of_the_order_line() -> None:
    request = replace(
        a_request(ReturnStep("create", "r", None, None)),
        lines=(LineRequest("a", 1), LineRequest("b", 1), LineRequest("c", 1, price=0.0)),
    )
    made = allowed(created_return(request, order_with({"a": 1, "b": 1, "c": 1}), "RET1"))
    assert [line.price for line in made.lines] == [9.5, None, 0.0]


def test_cancellation_releases_quantities_and_increase_is_checked() -> None:
    known, order = stored(order_with({"a": 3}), ("a", 2))
    assert order.available() == {"a": 1}
    assert isinstance(change(known, order, lines=[("a", 3)]), Return)
    assert isinstance(change(known, order, lines=[("a", 4)]), list)
    canceled = allowed(change(known, order, CANCELED))
    order = with_return(order, known, canceled)
    assert order.available() == {"a": 3}
    assert isinstance(change(canceled, order, ReturnStatus.NEW), Return)
    # Even if the order has lost the line meanwhile.
    assert isinstance(change(canceled, order_with({"b": 1}), CANCELED), Return)
    _, order = stored(order, ("a", 2))
    assert isinstance(change(canceled, order, ReturnStatus.NEW), list)
    assert isinstance(change(canceled, order, ReturnStatus.NEW, [("a", 1)]), Return)
    _, order = stored(order, ("a", 1))
    assert isinstance(change(canceled, order, ReturnStatus.NEW, [("a", 1)]), list)


def test_return_keeps_its_quantities_when_the_order_shrinks() -> None:
    known, _ = stored(order_with({"a": 3, "b": 1}), ("a", 2), ("b", 1))
    shrunk = replace(order_with({"a": 1}), returned=known.quantities())
    assert isinstance(change(known, shrunk, ReturnStatus.APPROVED), Return)
    assert isinstance(change(known, shrunk, lines=[("a", 1)]), Return)
    assert isinstance(change(known, shrunk, lines=[("a", 3), ("b", 1)]), list)
    canceled = allowed(change(known, shrunk, CANCELED))
    assert with_return(shrunk, known, canceled).returned == {}
    assert isinstance(change(canceled, shrunk, ReturnStatus.NEW), list)


def test_lines_keep_their_ids_when_they_change() -> None:
    known, order = stored(order_with({"a": 5, "b": 5}), ("a", 1), ("b", 1), ("a", 2))
    after = allowed(change(known, order, lines=[("b", 2), ("a", 3)]))
    assert [line.id for line in after.lines] == [known.lines[1].id, known.lines[0].id]
    assert after.quantities() == {"a": 3, "b": 2}
    assert len({line.id for line in known.lines}) == 3


def test_ids_of_many_lines_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def recording_uuid5(namespace: UUID, name: str) -> UUID:
        made.append(name)
        return uuid5(namespace, name)

    monkeypatch.setattr("domain.returns_lines.uuid5", recording_uuid5)
    known, order = stored(order_with({"a": 2_000}), *[("a", 1)] * 1_000)
    assert len({line.id for line in known.lines}) == len(made) == 1_000
    after = allowed(change(known, order, lines=[("a", 1)] * 1_001))
    assert after.lines[:-1] == known.lines
    assert len({line.id for line in after.lines}) == 1_001
    assert len(made) == 2_001


def test_named_line_of_equal_ones_keeps_its_fields() -> None:
    known, order = stored(order_with({"a": 5, "b": 1}), ("a", 1), ("a", 1))
    first, second = (replace(line, price=price) for line, price in zip(known.lines, (5.0, 7.0), strict=True))
    known = replace(known, lines=(first, second))
    request = replace(a_request(ReturnStep("change", "r", None, None), 1), at=AT.replace(hour=5), by="clerk")

    def lines_after(*lines: LineRequest) -> tuple[ReturnLine, ...]:
        after = allowed(changed_return(known, replace(request, lines=lines), order))
        return after.lines

    assert lines_after(LineRequest("a", 1, id=second.id)) == (second,)
    twins = lines_after(LineRequest("a", 2), LineRequest("a", 1, id=first.id), LineRequest("a", 1))
    assert [(line.id, line.price) for line in twins[:2]] == [(second.id, 7.0), (first.id, 5.0)]
    assert len({line.id for line in twins}) == 3


def test_unknown_line_id_is_not_matched_to_another_line() -> None:
    known, order = stored(order_with({"a": 9, "b": 9}), ("a", 1), ("a", 1))
    id, request = known.lines[0].id, a_request(ReturnStep("change", "r", None, None), 1)
    lines = (
        *(LineRequest("a", 1, id=each) for each in (id, "gone", id)),
        LineRequest("b", 1, id=id),
        LineRequest("b", 1),
    )
    reasons = changed_return(known, replace(request, lines=lines), order)
    assert reasons == [
        RefusalReason(
            ReturnRefusal.UNKNOWN_RETURN_LINE,
            f"The return has no line {lines[index].id} of order line {line}, or the line is given twice",
            index,
        )
        for index, line in ((1, "a"), (2, "a"), (3, "b"))
    ]


def test_only_the_changed_line_gets_a_new_modifier() -> None:
    known, order = stored(order_with({"a": 5, "b": 5}), ("a", 1), ("b", 1))
    request = replace(a_request(ReturnStep("change", "r", None, [("a", 1), ("b", 2)]), 1), at=AT.replace(hour=5))
    after = allowed(changed_return(known, replace(request, by="clerk"), order))
    assert [line.modified_by for line in after.lines] == [None, "clerk"]
    assert after.lines[0] == known.lines[0]


def test_new_return_as_stored() -> None:
    order = replace(order_with({"a": 3, "b": 1}), store_id="shop")
    step = ReturnStep("create", "r", None, [("a", 2), ("b", 1), ("a", 1)])
    request = replace(a_request(step, 7), by="anna", resolution="Refund")
    made = allowed(created_return(request, order, "RET1"))
    assert made == Return(
        *("r", "RET1", "o", ReturnStatus.NEW, "Refund"),
        lines=tuple(
            ReturnLine(
                *(str(uuid5(LINES, f"r/{line}/{nth}")), line, quantity, PRICES[line], None, AT, AT, "anna", "anna")
            )
            for line, nth, quantity in (("a", 1, 2), ("b", 1, 1), ("a", 2, 1))
        ),
        created=AT,
        modified=AT,
        created_by="anna",
        modified_by="anna",
        seen=Seen().after(request.position),
        store_id="shop",
        origin=request.digest,
    )
    approved = replace(request, status=ReturnStatus.APPROVED)
    assert created_return(approved, order, "RET1") == replace(
        made, status=ReturnStatus.APPROVED, origin=approved.digest
    )


def test_change_keeps_fields_it_does_not_name() -> None:
    order = replace(order_with({"a": 5}), store_id="shop")
    first = replace(
        a_request(ReturnStep("create", "r", None, None)),
        by="anna",
        resolution="Refund",
        lines=(LineRequest("a", 1, "Broken", 2.5),),
    )
    known = allowed(created_return(first, order, "RET1"))
    assert [(line.reason, line.price) for line in known.lines] == [("Broken", 2.5)]
    order, later = with_return(order, None, known), AT.replace(hour=5)
    no_change = replace(a_request(ReturnStep("change", "r", None, None), 1), at=later, by="clerk")
    seen = known.seen.after(no_change.position)
    touched = replace(known, modified=later, modified_by="clerk", seen=seen)
    assert changed_return(known, no_change, order) is known
    again = replace(no_change, lines=(LineRequest("a", 1),), resolution="Refund", status="new")
    assert changed_return(known, again, order) is known
    some = replace(no_change, lines=(LineRequest("a", 3),))
    line = replace(known.lines[0], quantity=3, modified=later, modified_by="clerk")
    assert changed_return(known, some, order) == replace(touched, lines=(line,))
    moved = replace(order, store_id="moved")  # its number belongs to the store of its creation
    assert changed_return(known, some, moved) == replace(touched, lines=(line,))
    everything = replace(
        some, lines=(LineRequest("a", 3, "", 0.0),), resolution="", status=ReturnStatus.COMPLETED, stores=["shop"]
    )
    line = replace(line, reason="", price=0.0)
    assert changed_return(known, everything, order) == replace(
        touched, lines=(line,), resolution="", status=ReturnStatus.COMPLETED
    )


@pytest.mark.parametrize("behind", [timedelta(), timedelta(hours=1)])
def test_later_change_has_a_later_time_even_with_a_slow_clock(behind: timedelta) -> None:
    order, millisecond = order_with({"a": 5}), timedelta(milliseconds=1)
    known, order = stored(order, ("a", 1))
    request = replace(a_request(ReturnStep("change", "r", None, [("a", 2)]), 1), at=AT - behind)
    changed = allowed(changed_return(known, request, order))
    assert (changed.created, changed.modified) == (AT, AT + millisecond)
    assert [line.modified for line in changed.lines] == [AT + millisecond]
    assert changed.time_of_change(AT) == AT + 2 * millisecond


def test_change_at_the_maximum_time() -> None:
    end = datetime.max.replace(microsecond=999_000, tzinfo=UTC)
    known, order = stored(order_with({"a": 5}), ("a", 1))
    changed = allowed(change(replace(known, modified=end), order, ReturnStatus.APPROVED))
    assert (changed.status, changed.modified) == ("Approved", end)


def test_decision_on_each_kind_of_request() -> None:
    order = order_with({"a": 2})
    known, after = stored(order, ("a", 1))
    new = a_request(ReturnStep("create", "r", None, [("a", 1)]))
    change_of_it = a_request(ReturnStep("change", "r", CANCELED, None), 1)
    unknown = [RefusalReason(ReturnRefusal.UNKNOWN_RETURN, "Return r is unknown")]

    assert decide(new, None, order, "RET1") == known
    assert decide(new, None, None, "RET1") is None
    assert decide(new, None, order, None) is None
    assert decide(new, known, after, "RET2") is known
    assert decide(change_of_it, known, after, None) == changed_return(known, change_of_it, after)
    elsewhere = RefusalReason(ReturnRefusal.ID_TAKEN, "The return belongs to order o, which can't be changed")
    assert changed_return(known, replace(change_of_it, named_order_id="p"), after) == [elsewhere]
    assert decide(change_of_it, known, None, None) == unknown
    assert decide(change_of_it, None, after, None) == unknown


def test_stores_limit_the_orders_that_can_be_returned() -> None:
    order = replace(order_with({"a": 5}), store_id="shop")
    request = replace(a_request(ReturnStep("create", "r", None, [("a", 1)])), stores=["other"])
    assert created_return(request, order, "RET1") == [RefusalReason(ReturnRefusal.UNKNOWN_ORDER, "Order o is unknown")]
    known = allowed(created_return(replace(request, stores=["other", "shop"]), order, "RET1"))
    assert changed_return(known, request, order) == [RefusalReason(ReturnRefusal.UNKNOWN_RETURN, "Return r is unknown")]
    assert created_return(request, replace(order, store_id=None), "RET1") != known


def test_reason_against_one_command_too_many_for_an_unknown_order() -> None:
    message = "Order o is unknown, and too many commands wait for it: send the command again once the order is stored"
    assert crowded_order("o") == [RefusalReason(ReturnRefusal.UNKNOWN_ORDER, message)]


@pytest.mark.parametrize(
    ("order_id", "stores", "is_repeat"),
    [("o", None, True), ("o", ["other", "shop"], True), ("o", ["other"], False), ("p", None, False)],
    ids=["sender of all stores", "sender of its store", "sender of another store", "another order"],
)
def test_request_with_a_known_id_is_a_repeat_or_refused(
    order_id: str, stores: list[str] | None, is_repeat: bool
) -> None:
    known, order = stored(replace(order_with({"a": 1}), store_id="shop"), ("a", 1))
    request = replace(a_request(ReturnStep("create", "r", None, [("a", 1)])), order_id=order_id, stores=stores)
    taken = RefusalReason(ReturnRefusal.ID_TAKEN, "The id is taken: choose another one, or omit it")
    assert decide(request, known, order, "RET2") == (known if is_repeat else [taken])


@pytest.mark.parametrize(
    "other",
    [
        {"status": ReturnStatus.APPROVED},
        {"resolution": "Refund"},
        {"lines": (LineRequest("a", 1), LineRequest("b", 1))},
        {"lines": (LineRequest("b", 1),)},
        {"lines": (LineRequest("a", 2),)},
        {"lines": (LineRequest("a", 1, reason="Scratched"),)},
        {"lines": (LineRequest("a", 1, price=0.0),)},
    ],
    ids=str,
)
def test_different_request_with_a_known_id_is_no_repeat(other: dict[str, Any]) -> None:
    known, order = stored(order_with({"a": 5, "b": 5}), ("a", 1))
    request = a_request(ReturnStep("create", "r", None, [("a", 1)]), 1)
    refused = decide(replace(request, **other), known, order, "RET2")
    assert isinstance(refused, list)
    assert [reason.code for reason in refused] == [ReturnRefusal.ID_TAKEN]
    assert "created by another request" in refused[0].message
    # The same request is a repeat, whatever has become of the return. Without a stored digest, any request is.
    changed = allowed(changed_return(known, replace(request, is_new=False, **other), order))
    assert decide(request, changed, order, "RET2") is changed
    before = replace(known, origin=None)
    assert decide(replace(request, **other), before, order, "RET2") is before


def test_letter_case_of_a_status_makes_no_difference_to_a_repeat() -> None:
    known, order = stored(order_with({"a": 5}), ("a", 1), status=ReturnStatus.APPROVED)
    request = replace(a_request(ReturnStep("create", "r", None, [("a", 1)])), status="aPPROVED")
    assert decide(request, known, order, "RET2") is known


@pytest.mark.parametrize(("first", "last"), [(1, 2), (2, 1)])
def test_each_reason_has_its_message_and_line(first: int, last: int) -> None:
    assert create(order_with({"a": 2}), ("a", first), ("x", 1), ("a", last)) == [
        RefusalReason(ReturnRefusal.TOO_MANY, "3 of line a requested, 2 available", 0),
        RefusalReason(ReturnRefusal.UNKNOWN_LINE, "Order o has no line x", 1),
        RefusalReason(ReturnRefusal.TOO_MANY, "3 of line a requested, 2 available", 2),
    ]


def test_canceled_return_may_name_up_to_the_ordered_quantity() -> None:
    assert isinstance(create(order_with({}), status=CANCELED), Return)
    order = replace(order_with({"a": 2}), returned={"a": 2})
    known = allowed(create(order, ("a", 1), ("a", 1), status=CANCELED))
    too_many = [RefusalReason(ReturnRefusal.TOO_MANY, "3 of line a requested, 2 ordered", index) for index in (0, 1)]
    assert create(order, ("a", 1), ("a", 2), status=CANCELED) == too_many
    assert change(known, order, lines=[("a", 1), ("a", 2)]) == too_many
    # It may keep its quantity, even if fewer are ordered by now.
    fewer = order_with({"a": 1})
    assert isinstance(change(known, fewer, lines=[("a", 2)]), Return)
    assert change(known, fewer, lines=[("a", 3)]) == [
        RefusalReason(ReturnRefusal.TOO_MANY, "3 of line a requested, 1 ordered", 0)
    ]
    assert create(order_with({}), ("x", 1), status=CANCELED) == [
        RefusalReason(ReturnRefusal.UNKNOWN_LINE, "Order o has no line x", 0)
    ]


def test_unknown_expected_status_is_not_a_change_by_others() -> None:
    known, order = stored(order_with({"a": 1}), ("a", 1))
    request = replace(a_request(ReturnStep("change", "r", CANCELED, None), 1), expected_status="Nwe")
    message = "Nwe is not a status of returns. Use one of: New, Approved, Processing, Completed, Canceled"
    unknown = RefusalReason(ReturnRefusal.UNKNOWN_STATUS, message, field="expectedStatus")
    assert changed_return(known, request, order) == [unknown]
    changed = RefusalReason(ReturnRefusal.STATUS_CHANGED, "The return now has the status New")
    assert changed_return(known, replace(request, expected_status="approved"), order) == [changed]
    assert isinstance(changed_return(known, replace(request, expected_status="NEW"), order), Return)
    # The return has this status, although it was removed from the settings.
    old = replace(known, status="Old")
    assert isinstance(changed_return(old, replace(request, expected_status="old"), order), Return)


def test_order_with_excess_returns_has_nothing_left() -> None:
    overdrawn = replace(order_with({"a": 2}), returned={"a": 5})
    assert create(overdrawn, ("a", 1)) == [
        RefusalReason(ReturnRefusal.TOO_MANY, "1 of line a requested, 0 available", 0)
    ]


@given(quantities, some_lines, some_status)
def test_deletion_releases_all_quantities(ordered: dict[str, int], lines: Lines, status: ReturnStatus | None) -> None:
    order = order_with(ordered)
    made = create(order, *lines, status=status)
    if isinstance(made, Return):
        deletion = ReturnRequest("r", "o", False, RecordPosition(0, 3, 1_003), AT, is_deletion=True)
        gone = decide(deletion, made, with_return(order, None, made), None)
        assert gone == DeletedReturn("r", made.seen.after(deletion.position))
        assert with_return(with_return(order, None, made), made, None) == order


def test_deleted_return_cannot_be_recreated_or_changed() -> None:
    known, order = stored(order_with({"a": 3}), ("a", 2))
    deletion = ReturnRequest("r", "o", False, RecordPosition(0, 1, 1_001), AT, is_deletion=True)
    gone = decide(deletion, known, order, None)
    assert isinstance(gone, DeletedReturn)
    for step, code in (
        (ReturnStep("create", "r", None, [("a", 1)]), ReturnRefusal.ID_TAKEN),
        (ReturnStep("change", "r", CANCELED, None), ReturnRefusal.UNKNOWN_RETURN),
    ):
        assert codes(decide(a_request(step, 2), gone, order, "RET2")) == [code]
    for target in (gone, None):
        assert decide(deletion, target, order, None) == [
            RefusalReason(ReturnRefusal.UNKNOWN_RETURN, "Return r is unknown")
        ]


def test_sender_of_another_store_cannot_delete_it() -> None:
    known, order = stored(replace(order_with({"a": 3}), store_id="shop"), ("a", 2))
    deletion = ReturnRequest("r", "o", False, RecordPosition(0, 1, 1_001), AT, is_deletion=True, stores=["other"])
    assert codes(decide(deletion, known, order, None)) == [ReturnRefusal.UNKNOWN_RETURN]
    assert isinstance(decide(replace(deletion, stores=["shop"]), known, order, None), DeletedReturn)
    assert isinstance(decide(deletion, known, None, None), list)


def test_statuses_come_from_the_settings() -> None:
    order, statuses = order_with({"a": 3}), ("New", "In transit", "Canceled")
    request = replace(a_request(ReturnStep("create", "r", None, [("a", 1)])), status="in TRANSIT ")
    made = allowed(created_return(request, order, "RET1", statuses))
    assert made.status == "In transit"
    assert decide(request, None, order, "RET1", statuses) == made
    again = replace(request, is_new=False)
    before = replace(made, status="New")
    assert decide(again, before, order, None, statuses) == changed_return(before, again, order, statuses)
    refused = created_return(replace(request, status="Approved"), order, "RET1", statuses)
    message = "Approved is not a status of returns. Use one of: New, In transit, Canceled"
    assert refused == [RefusalReason(ReturnRefusal.UNKNOWN_STATUS, message)]

    def changed_to(status: str | None, before: str) -> Return | list[RefusalReason]:
        change = replace(a_request(ReturnStep("change", "r", None, None), 1), status=status)
        return changed_return(replace(made, status=before), change, with_return(order, None, made), statuses)

    # A status removed from the settings stays until it is changed.
    for status, former, after in (
        (None, "Approved", "Approved"),
        ("approved", "Approved", "Approved"),
        ("new", "Approved", "New"),
        ("canceled", "New", "Canceled"),
    ):
        kept = allowed(changed_to(status, former))
        assert kept.status == after
    assert codes(changed_to("Approved", "New")) == [ReturnRefusal.UNKNOWN_STATUS]
    assert DEFAULT_STATUSES == ("New", "Approved", "Processing", "Completed", "Canceled")
