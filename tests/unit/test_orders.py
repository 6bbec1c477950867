import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.orders import ReceivedOrder, apply_events
from domain.orders import (
    Customer,
    Order,
    OrderLine,
    Purchase,
    ReminderState,
    VerifiableReview,
    after_event,
    is_cancelled,
    is_of_other_store,
    to_mark,
)
from domain.ratings import Entity
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import Received
from messaging.mails import mailbox
from messaging.orders import order_event
from tests.support.domain_orders import NOON, order_of
from tests.support.records import Record

Event = tuple[Order, str]


def an_event(minute: int = 0, status: str = "New", quantity: int = 1, content: str = "") -> Event:
    lines = OrderLine("a", "camera", "Camera", quantity, 9.5), OrderLine("b", None, None, 2 * quantity)
    body = f"{minute} {status} {quantity} {content}"
    moment = NOON + timedelta(minutes=minute)
    order = order_of(lines, status=status, is_cancelled=is_cancelled(status), modified=moment, body=body.encode())
    return order, body


def known_after(*events: Event, known: Order | None = None) -> Order:
    order = reduce(lambda known, event: after_event(known, *event), events, known)
    assert order is not None
    return order


statuses = st.sampled_from(["New", "Processing", "complete", "Complete", "Cancelled"])
histories = st.lists(
    st.builds(an_event, st.integers(-50, 50), statuses, st.integers(0, 3)),
    min_size=1,
    max_size=12,
    unique_by=lambda event: event[0].modified,
)


@given(histories, st.data())
def test_shuffled_and_repeated_events_lead_to_one_state(history: list[Event], data: st.DataObject) -> None:
    in_order = sorted(history, key=lambda event: event[0].modified)
    repeats = data.draw(st.lists(st.sampled_from(history), max_size=10))
    shuffled = data.draw(st.permutations([*history, *repeats]))
    assert known_after(*shuffled) == known_after(*in_order)


@given(histories, st.data())
def test_newest_event_counts_with_the_start_of_its_status(history: list[Event], data: st.DataObject) -> None:
    order = known_after(*data.draw(st.permutations(history)))
    in_order = [event for event, _ in sorted(history, key=lambda event: event[0].modified)]
    *_, run = (list(run) for _, run in groupby(in_order, key=lambda event: event.status.lower()))
    assert (order.body, order.lines, order.status) == (run[-1].body, run[-1].lines, run[-1].status)
    assert order.status_since == run[0].modified


@given(histories, st.data())
def test_known_store_is_kept(history: list[Event], data: st.DataObject) -> None:
    without = data.draw(st.sets(st.integers(0, len(history) - 1), max_size=len(history) - 1))
    partly = [(replace(o, store_id=None) if n in without else o, d) for n, (o, d) in enumerate(history)]
    assert known_after(*data.draw(st.permutations(partly))).store_id == "shop"


def test_order_id_belongs_to_one_store() -> None:
    (order, _), (other, _) = an_event(), an_event(1)
    assert is_of_other_store(order, replace(other, store_id="elsewhere"))
    assert not is_of_other_store(order, other)
    assert not is_of_other_store(order, replace(other, store_id=None))
    assert not is_of_other_store(replace(order, store_id=None), other)
    assert not is_of_other_store(None, other)


def test_repeat_changes_nothing() -> None:
    order = known_after(an_event(0, "New"), an_event(1, "Complete"))
    for event in (an_event(0, "New"), an_event(1, "Complete")):
        assert known_after(event, known=order) is order


def test_later_record_with_equal_timestamp_wins_unless_it_is_a_repeat() -> None:
    first, second = an_event(1, content="first"), an_event(1, "Complete", content="second")
    order = known_after(an_event(0), first, second)
    assert order.body == second[0].body
    assert known_after(first, known=order) is order
    assert known_after(an_event(-1), known=order).status_since == order.modified


def test_repeated_status_keeps_its_start() -> None:
    order = known_after(an_event(0, "New"), *(an_event(minute, "Complete") for minute in (1, 5, 9)))
    assert order.status_since == NOON + timedelta(minutes=1)
    assert known_after(an_event(3, "New"), known=order).status_since == NOON + timedelta(minutes=5)


@given(histories)
def test_returned_quantities_are_kept(history: list[Event]) -> None:
    first, *later = history
    order = replace(known_after(first), returned={"a": 1, "c": 7})
    assert known_after(*later, known=order).returned == {"a": 1, "c": 7}


def test_available_quantity_is_never_negative() -> None:
    order = replace(an_event(quantity=3)[0], returned={"a": 1, "b": 9})
    assert order.available() == {"a": 2, "b": 0}


@pytest.mark.parametrize(
    ("email", "address"),
    [
        *((None, None), ("", None), ("anna", None), ("anna@", None), ("a b@example.com", None), ("a@b@c", None)),
        *(("anna@example.com\x00", None), ("Anna <anna@example.com", None), ("Anna <anna>", None), ("A <a@[>", None)),
        *((f"{name}anna@example.com{end}", "anna@example.com") for name, end in ((" ", "\n"), ("Anna <", ">"))),
        *((wrong, None) for wrong in ("anna@example.com;", "an..na@example.com", "a@b..example")),
        *((wrong, None) for wrong in ("anna.@example.com", "<anna@example.com", "a,b@example.com", "anna@[example")),
        *((f"anna@{'x' * 64}.example", None), ("änna@münchen.example", "änna@xn--mnchen-3ya.example")),
    ],
)
def test_usable_address_of_a_customer(email: str | None, address: str | None) -> None:
    assert Customer(email=email).address == address
    if address is not None:
        assert mailbox("to", address).addr_spec == address


def test_lines_with_equal_ids_are_one() -> None:
    order = an_event()[0]
    assert replace(order, lines=order.lines * 3).available() == {"a": 3, "b": 6}


@pytest.mark.parametrize(
    ("status", "expected"), [("Cancelled", True), ("CANCELED", True), ("New", False), ("Not cancelled", False)]
)
def test_both_spellings_of_cancelled(status: str, expected: bool) -> None:
    assert is_cancelled(status) is expected


@pytest.mark.parametrize("count", [499, 500, 501, 503])
def test_oldest_observations_are_dropped(count: int) -> None:
    order = known_after(*(an_event(minute, f"Status {minute}") for minute in range(count)))
    minutes = range(max(0, count - 500), count)
    assert order.observations == tuple((NOON + timedelta(minutes=m), f"Status {m}") for m in minutes)


@pytest.mark.parametrize("count", [499, 500, 501])
def test_oldest_digests_are_dropped(count: int) -> None:
    events = [an_event(content=str(number)) for number in range(count)]
    order = known_after(*events)
    assert order.digests == tuple(digest for _, digest in events[-500:])
    assert known_after(events[-1], known=order) is order


def test_order_keeps_observations_and_digests() -> None:
    (first, digest), (late, late_digest), (second, repeat) = an_event(1), an_event(0, "Early"), an_event(1, "Complete")
    order = after_event(None, first, digest)
    assert order == replace(first, observations=((first.modified, "New"),), digests=(digest,))
    order = after_event(order, late, late_digest)
    observations = ((late.modified, "Early"), (first.modified, "New"))
    assert order == replace(first, observations=observations, digests=(digest,))
    order = after_event(order, second, repeat)
    assert order == replace(
        second, observations=(*observations, (second.modified, "Complete")), digests=(digest, repeat)
    )
    # A repeated status of the same moment becomes the last of its observations.
    repeated = after_event(order, first, "another")
    assert [status for _, status in repeated.observations] == ["Early", "Complete", "New"]
    newer, newest = an_event(2, "Complete")
    assert after_event(repeated, newer, newest).digests == (newest,)


def test_late_event_with_known_status_changes_nothing() -> None:
    order = known_after(an_event(0), an_event(5, "Complete"))
    assert after_event(order, an_event(0)[0], "another digest") is order
    known = after_event(order, *an_event(3, "Complete"))
    assert known.body == order.body
    assert known.status_since == NOON + timedelta(minutes=3)


def test_status_left_and_resumed_within_a_moment_counts_from_its_return() -> None:
    order, _ = an_event(1, "Complete")
    assert order.status_since == order.modified
    before, again = (NOON, "Complete"), (order.modified, "Complete")
    assert replace(order, observations=(before, again)).status_since == NOON
    assert replace(order, observations=(before, (order.modified, "New"), again)).status_since == order.modified


@pytest.mark.parametrize("statuses", [("Paid", "Sent"), ("Sent", "Paid")])
def test_late_events_of_one_moment_keep_their_order(statuses: tuple[str, str]) -> None:
    order = known_after(an_event(5, "Complete"), *(an_event(3, status) for status in statuses))
    assert [status for _, status in order.observations] == [*statuses, "Complete"]


@pytest.mark.parametrize("is_viewed", [False, True])
def test_new_event_reopens_the_reminder_unless_the_request_was_viewed(is_viewed: bool) -> None:
    state = ReminderState(1, NOON, sent_to_customer=2, is_over=True, limit_since=NOON, is_viewed=is_viewed)
    assert state.after_news() == ReminderState(1, NOON, is_over=is_viewed, is_viewed=is_viewed)


def received_order(at: datetime, status: str, modified: datetime | str | None) -> ReceivedOrder:
    """The event of an order with this status, in a record with this time."""
    date = modified.isoformat() if isinstance(modified, datetime) else modified
    value = json.dumps({"id": "o", "status": status, "modifiedDate": date}).encode()
    return Received(Record(timestamp=round(at.timestamp() * 1_000), value=value), order_event(value))


@pytest.mark.parametrize(
    ("date", "code"),
    [
        (None, DeadLetterCode.INVALID_TIMESTAMP),
        ("2100-01-01T00:00:00Z", DeadLetterCode.INVALID_MESSAGE),
        ("2100-01-01", DeadLetterCode.INVALID_MESSAGE),
    ],
)
def test_event_from_the_future_does_not_stop_later_ones(date: str | None, code: DeadLetterCode) -> None:
    now = datetime.now(UTC)
    ahead = received_order(datetime(2100, 1, 1, tzinfo=UTC), "New", date)
    orders, (letter,) = apply_events([ahead, received_order(now, "Complete", now)], {})
    assert orders["o"].status == "Complete"
    assert (letter.record, letter.error.code) == (ahead.record, code)


@pytest.mark.parametrize("days", [-400, 0.5, 400])
def test_date_of_an_event_counts_whatever_the_time_of_its_record(days: float) -> None:
    now = datetime.now(UTC)
    # A day without a time ends before the next one.
    for date in (now, f"{now:%Y-%m-%d}"):
        orders, refused = apply_events([received_order(now + timedelta(days=days), "Complete", date)], {})
        assert (orders["o"].status, refused) == ("Complete", [])


BOUGHT = Purchase("shop", "anna", Entity("Product", "camera"))
OTHER = BOUGHT._replace(store_id=None)


def test_verification_marks_follow_purchases() -> None:
    marked = [VerifiableReview(str(mark), BOUGHT, mark) for mark in (True, False, None)]
    assert to_mark(marked, {BOUGHT}) == [r._replace(is_verified=True) for r in marked[1:]]
    assert to_mark(marked, {OTHER}) == [r._replace(is_verified=False) for r in (marked[0], marked[2])]
    assert to_mark(to_mark(marked, {OTHER}), {OTHER}) == []


def test_reassigned_order_keeps_its_former_customers() -> None:
    order = order_of(customer=Customer("anna"))
    events = [
        order_of(customer=Customer(name), modified=NOON + timedelta(minutes=minute))
        for minute, name in enumerate(("bert", "cleo", None, "anna"), 1)
    ]
    known = after_event(None, order, "0")
    seen = [(known.former_customers, known.customer_ids)]
    for digest, event in enumerate(events, 1):
        known = after_event(known, event, str(digest))
        seen.append((known.former_customers, known.customer_ids))
    assert seen == [
        ((), {"anna"}),
        (("anna",), {"anna", "bert"}),
        (("anna", "bert"), {"anna", "bert", "cleo"}),
        (("anna", "bert", "cleo"), {"anna", "bert", "cleo"}),
        (("bert", "cleo"), {"anna", "bert", "cleo"}),
    ]


def test_same_customer_is_not_a_former_one() -> None:
    order = order_of(customer=Customer("anna"))
    known = after_event(order, replace(order, status="Complete", modified=NOON + timedelta(minutes=1)), "1")
    assert known.former_customers == ()
