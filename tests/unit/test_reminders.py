from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.orders import Customer, Order, OrderLine, ReminderState, after_event
from domain.reminders import (
    MOST_ITEMS,
    MOST_TIMES,
    Decided,
    Item,
    ProductInStore,
    Reminder,
    ReminderRun,
    ReviewableOrder,
    ReviewedProduct,
    SentReminders,
    Skip,
    decide,
    decide_in_turn,
    due_date,
    earliest_status_since,
    latest_counted_from,
    state_after,
    takes_reviews,
    without_mail,
)
from domain.stores import ReminderSettings, Store, StoreSettings
from tests.support.domain_orders import NOON, order_of

DAY, MINUTE, SECOND = timedelta(days=1), timedelta(minutes=1), timedelta(seconds=1)
SETTINGS = ReminderSettings(enabled=True)
OPEN = Store("shop", settings=StoreSettings(reviews_enabled=True))
CAMERA, TRIPOD = Item("camera", "Camera"), Item("tripod", "Tripod")
ANNA = Customer("anna", "Anna Berg", "anna@example.com", "de-DE")
ORDER = ReviewableOrder("o1", "CO1", "Complete", False, "shop", ANNA, NOON, (CAMERA, TRIPOD))


def sent_at(count: int, day: int = -1) -> SentReminders:
    return SentReminders(count, (NOON + day * DAY,) * count)


def run_of(settings: ReminderSettings = SETTINGS, **known: Any) -> ReminderRun:
    """A run on the day on which ORDER is due; default: with its store."""
    return ReminderRun(settings, NOON + 10 * DAY, **{"stores": {"shop": OPEN}, **known})


def outcome(
    order: ReviewableOrder = ORDER,
    *,
    settings: ReminderSettings = SETTINGS,
    store: Store | None = OPEN,
    reviewed: tuple[str, ...] = (),
    sent: int = 0,
    after: timedelta = 10 * DAY,
    closed: tuple[str, ...] = (),
    needs_email: bool = False,
) -> Reminder | Skip:
    products = {ReviewedProduct("shop", "anna", product) for product in reviewed}
    shut = {ProductInStore("shop", each) for each in closed}
    stores = {"shop": store} if store else {}
    return decide(order, sent_at(sent), ReminderRun(settings, NOON + after, stores, products, shut, needs_email))


def named_items(decision: Reminder | Skip) -> tuple[Item, ...]:
    assert isinstance(decision, Reminder), decision
    return decision.items


def test_reminder_is_not_due_a_second_early() -> None:
    assert outcome(after=10 * DAY - SECOND) is Skip.NOT_YET
    assert named_items(outcome(after=10 * DAY)) == (CAMERA, TRIPOD)
    assert due_date(ORDER, SETTINGS) == NOON + 10 * DAY
    assert due_date(ORDER, replace(SETTINGS, days_in_status=10_000_000)) is None


def test_reviewed_products_are_not_named() -> None:
    assert named_items(outcome(reviewed=("tripod",))) == (CAMERA,)
    assert outcome(reviewed=("tripod", "camera")) is Skip.EVERYTHING_REVIEWED


def test_review_in_another_store_or_by_another_customer_does_not_count() -> None:
    elsewhere = {ReviewedProduct(None, "anna", "camera"), ReviewedProduct("shop", "bert", "tripod")}
    assert named_items(decide(ORDER, SentReminders(), run_of(reviewed=elsewhere))) == (CAMERA, TRIPOD)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (replace(ORDER, status="Completed"), Skip.NOT_IN_STATUS),
        (replace(ORDER, is_cancelled=True), Skip.CANCELLED),
        (replace(ORDER, customer=replace(ANNA, id=None)), Skip.NO_CUSTOMER),
        (replace(ORDER, items=()), Skip.NOTHING_TO_REVIEW),
        *(
            (replace(ORDER, customer=replace(ANNA, email=email)), Skip.NO_ADDRESS)
            for email in (None, "", " ", "anna", "@", "a@b@c", "anna@example.com\nBcc: all@example.com", "a\0@b")
        ),
    ],
)
def test_orders_without_reminder(order: ReviewableOrder, reason: Skip) -> None:
    assert outcome(order) is reason


@pytest.mark.parametrize("store", [None, Store("shop")], ids=["unknown", "closed"])
def test_store_without_reviews(store: Store | None) -> None:
    assert outcome(store=store) is Skip.REVIEWS_DISABLED


def test_order_without_a_store() -> None:
    assert named_items(outcome(replace(ORDER, store_id=None), store=None)) == (CAMERA, TRIPOD)


@pytest.mark.parametrize("status", ["complete", "COMPLETE"])
def test_status_matches_in_any_letter_case(status: str) -> None:
    assert isinstance(outcome(replace(ORDER, status=status)), Reminder)
    assert isinstance(outcome(settings=replace(SETTINGS, order_status=status)), Reminder)


def test_limit_per_customer() -> None:
    assert isinstance(outcome(sent=1), Reminder)
    assert outcome(sent=2) is Skip.CUSTOMER_LIMIT
    assert isinstance(outcome(sent=2, settings=replace(SETTINGS, max_emails_per_customer=3)), Reminder)


def test_address_is_trimmed() -> None:
    decision = outcome(replace(ORDER, customer=replace(ANNA, email=" anna@example.com ")))
    assert isinstance(decision, Reminder)
    assert decision.to == "anna@example.com"


def test_items_are_limited() -> None:
    items = tuple(Item(f"p{number}", "P") for number in range(MOST_ITEMS + 1))
    assert named_items(outcome(replace(ORDER, items=items))) == items[:-1]


# The following tests check whole histories: repeated runs of the job.


def run(
    orders: list[ReviewableOrder], sent: dict[str, SentReminders], now: datetime, **settings: int
) -> list[Reminder]:
    """One run of the job, which updates `orders` and `sent`."""
    rules = ReminderSettings(enabled=True, **settings)  # type: ignore[arg-type]
    outcomes = list(decide_in_turn(orders, sent, ReminderRun(rules, now, {"shop": OPEN})))
    orders[:] = [each.order for each in outcomes]
    return [each.decision for each in outcomes if isinstance(each.decision, Reminder)]


days = st.integers(0, 12)


@given(
    st.lists(st.tuples(st.sampled_from(["anna", "bert"]), days), max_size=6),
    st.lists(st.integers(0, 60), max_size=25),
    days,
    st.integers(0, 4),
)
def test_no_history_exceeds_the_limits(made: list[tuple[str, int]], runs: list[int], days: int, limit: int) -> None:
    orders = [
        replace(ORDER, id=str(number), customer=replace(ANNA, id=customer), status_since=NOON + day * DAY)
        for number, (customer, day) in enumerate(made)
    ]
    sent: dict[str, SentReminders] = {}
    reminded: dict[str, list[datetime]] = {}
    ids = []
    for day in sorted(runs):
        now = NOON + day * DAY
        before = {order.id: order for order in orders}
        reminders = run(orders, sent, now, days_in_status=days, max_emails_per_customer=limit)
        ids += [reminder.id for reminder in reminders]
        for order in orders:
            if order.reminders.sent > before[order.id].reminders.sent:
                reminded.setdefault(order.id, [order.status_since]).append(now)
        # A second run at the same time sends nothing.
        assert run(orders, sent, now, days_in_status=days, max_emails_per_customer=limit) == []
    assert len(ids) == len(set(ids)) == sum(each.count for each in sent.values())
    assert all(each.count <= limit for each in sent.values())
    for moments in reminded.values():
        assert all(later - earlier >= days * DAY for earlier, later in pairwise(moments))


def test_longest_waiting_orders_of_a_customer_come_first() -> None:
    orders = [replace(ORDER, id=str(day), status_since=NOON + day * DAY) for day in (2, 0, 1)]
    sent: dict[str, SentReminders] = {}
    assert len(run(orders, sent, NOON + 30 * DAY)) == 2
    assert {order.id: order.reminders.sent for order in orders} == {"0": 1, "1": 1, "2": 0}
    assert run(orders, sent, NOON + 60 * DAY) == []
    assert sent["anna"].count == 2


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_limiting_count_is_remembered(sent: int, limit: int, later_limit: int) -> None:
    """The index relies on it: an order is decided again only with a limit above the count that its customer reached."""
    orders, counts = [ORDER], {"anna": sent_at(sent)}
    run(orders, counts, NOON + 20 * DAY, max_emails_per_customer=limit)
    (order,) = orders
    is_decided_again = order.reminders.sent_to_customer < later_limit
    decision = outcome(
        order,
        sent=counts["anna"].count,
        after=40 * DAY,
        settings=replace(SETTINGS, max_emails_per_customer=later_limit),
    )
    assert isinstance(decision, Reminder) is is_decided_again


def an_event(minute: int, status: str = "Complete") -> Order:
    return order_of([OrderLine("1", "camera", "Camera", 1)], status=status, modified=NOON + minute * MINUTE)


def test_new_event_keeps_sent_reminders_and_clears_the_rest() -> None:
    known = after_event(None, an_event(0), "0")
    known = replace(known, reminders=ReminderState(2, NOON, 2, is_over=True))
    for event, digest in ((an_event(1), "1"), (an_event(0), "other"), (an_event(-1, "New"), "-1")):
        assert after_event(known, event, digest).reminders == ReminderState(2, NOON)
    assert after_event(known, an_event(0), "0") is known


def test_days_count_from_the_later_of_status_and_reminder() -> None:
    state = ReminderState(1, NOON)
    assert state.counted_from(NOON - DAY) == NOON
    assert state.counted_from(NOON + DAY) == NOON + DAY
    assert ReminderState().counted_from(NOON) == NOON


def test_final_and_temporary_reasons() -> None:
    kinds = Counter(reason.is_final for reason in Skip)
    assert kinds == {True: 10, False: 5}


@pytest.mark.parametrize(("days", "before"), [(10, 10 * DAY), (1, DAY), (0, timedelta(microseconds=1))])
def test_due_date_counts_days_and_excludes_reminders_just_sent(days: int, before: timedelta) -> None:
    assert latest_counted_from(replace(SETTINGS, days_in_status=days), NOON) == NOON - before


def test_reminder_id_follows_from_order_and_number() -> None:
    ids = UUID("5f0c2f0e-0f3e-5a44-9a35-6d0f3a9a2b71")
    for sent in range(3):
        order = replace(ORDER, reminders=ReminderState(sent=sent))
        reminder = Reminder(str(uuid5(ids, f"o1/{sent + 1}")), "anna@example.com", "anna", (CAMERA, TRIPOD))
        assert outcome(order, settings=replace(SETTINGS, max_emails_per_customer=9)) == reminder


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (Reminder("r", "a@b", "anna", (CAMERA,)), ReminderState(2, NOON + DAY, 7, limit_since=NOON - DAY)),
        (Skip.CUSTOMER_LIMIT, ReminderState(1, NOON, 7, limit_since=NOON - DAY)),
        *((skip, ReminderState(1, NOON, 3, is_over=True)) for skip in Skip if skip.is_final),
        *((s, ReminderState(1, NOON, 3)) for s in Skip if not s.is_final and s is not Skip.CUSTOMER_LIMIT),
    ],
)
def test_state_after_a_decision(decision: Reminder | Skip, expected: ReminderState) -> None:
    assert state_after(ReminderState(1, NOON, 3), decision, sent_at(7), ReminderRun(SETTINGS, NOON + DAY)) == expected


def test_order_with_failed_mail_is_restored_and_over() -> None:
    before = ReminderState(1, NOON, 1)
    reminder = Reminder("r", "a@b", "anna", (CAMERA,))
    decided = Decided(replace(ORDER, reminders=ReminderState(2, NOON + DAY, 2)), OPEN, reminder, is_changed=False)
    expected = Decided(replace(ORDER, reminders=replace(before, is_over=True)), OPEN, Skip.MAIL_FAILED, is_changed=True)
    assert without_mail(decided, before) == expected


def test_decision_comes_with_its_order_and_store() -> None:
    """Each with its updated order, the order's own store, and if anything has to be stored."""
    orders = [
        ORDER,
        replace(ORDER, id="o2", customer=replace(ANNA, id=None)),
        replace(ORDER, id="o3", store_id=None, customer=replace(ANNA, id="bert")),
        replace(ORDER, id="o4", status="New"),
        replace(ORDER, id="o5", store_id="closed"),
    ]
    closed = Store("closed")
    stores = {"shop": OPEN, "closed": closed}
    sent = {"anna": sent_at(1)}
    decisions = list(decide_in_turn(orders, sent, run_of(stores=stores)))
    assert [(each.order.id, each.store, each.is_changed) for each in decisions] == [
        ("o1", OPEN, True),
        ("o2", OPEN, True),
        ("o3", None, True),
        ("o4", OPEN, False),
        ("o5", closed, False),
    ]
    assert {customer: each.count for customer, each in sent.items()} == {"anna": 2, "bert": 1}
    assert decisions[0].order == replace(ORDER, reminders=ReminderState(1, NOON + 10 * DAY, 2, limit_since=NOON - DAY))
    assert decisions[1].order.reminders == ReminderState(is_over=True)


def test_decisions_respect_reviewed_and_closed_products() -> None:
    reviewed, closed = {ReviewedProduct("shop", "anna", "camera")}, {ProductInStore("shop", "tripod")}
    orders = [ORDER, replace(ORDER, id="o2", items=(CAMERA,)), replace(ORDER, id="o3", customer=replace(ANNA, id="b"))]
    decisions = decide_in_turn(orders, {}, run_of(reviewed=reviewed, closed=closed))
    first, second, third = (each.decision for each in decisions)
    assert (first, second) == (Skip.PRODUCTS_DISABLED, Skip.EVERYTHING_REVIEWED)
    assert named_items(third) == (CAMERA,)


def test_order_waits_for_a_sender() -> None:
    with_email, closed = replace(OPEN, email="shop@example.com"), Store("shop", email="shop@example.com")
    assert outcome(needs_email=True) is outcome(store=replace(OPEN, email=""), needs_email=True) is Skip.NO_SENDER
    assert outcome(replace(ORDER, store_id=None), store=None, needs_email=True) is Skip.NO_SENDER
    assert isinstance(outcome(store=with_email, needs_email=True), Reminder)
    assert outcome(store=closed, needs_email=True) is Skip.REVIEWS_DISABLED
    assert outcome(sent=2, needs_email=True) is Skip.NO_SENDER
    sent = dict[str, SentReminders]()
    (waiting,) = decide_in_turn([ORDER], sent, run_of(needs_email=True))
    assert (waiting.decision, waiting.order, waiting.is_changed, sent) == (Skip.NO_SENDER, ORDER, False, {})


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_customer_without_reminders(limit: int) -> None:
    rules = replace(SETTINGS, max_emails_per_customer=limit)
    (decided,) = decide_in_turn([ORDER], {}, run_of(rules))
    assert isinstance(decided.decision, Reminder) is (limit > 0)
    assert decided.order.reminders.sent_to_customer == min(limit, 1)
    assert decided.is_changed is (limit > 0)


def test_products_of_an_order() -> None:
    assert list(ORDER.products()) == [
        ReviewedProduct("shop", "anna", "camera"),
        ReviewedProduct("shop", "anna", "tripod"),
    ]
    assert list(replace(ORDER, customer=replace(ANNA, id=None)).products()) == []


@pytest.mark.parametrize(
    ("store_id", "store", "expected"),
    [(None, None, True), (None, Store("s"), True), ("s", None, False), ("s", Store("s"), False), ("s", OPEN, True)],
)
def test_stores_that_take_reviews(store_id: str | None, store: Store | None, expected: bool) -> None:
    assert takes_reviews(store_id, store) is expected


@pytest.mark.parametrize(("days", "age"), [(10, 30), (0, 30), (3, 0), (0, 0)])
def test_order_over_the_maximum_age_gets_no_reminder(days: int, age: int) -> None:
    settings = replace(SETTINGS, days_in_status=days, max_age_days=age)
    oldest = (days + age) * DAY
    assert earliest_status_since(settings, NOON + oldest) == NOON
    if oldest:
        assert isinstance(outcome(settings=settings, after=oldest), Reminder)
    assert outcome(settings=settings, after=oldest + SECOND) is Skip.TOO_OLD
    # Its last reminder doesn't make it younger.
    reminded = replace(ORDER, reminders=ReminderState(1, NOON + oldest - days * DAY))
    assert outcome(reminded, settings=settings, after=oldest + SECOND) is Skip.TOO_OLD


def test_products_that_take_no_reviews_are_not_named() -> None:
    assert named_items(outcome(closed=("tripod",))) == (CAMERA,)
    assert outcome(closed=("tripod", "camera")) is Skip.PRODUCTS_DISABLED
    assert outcome(closed=("tripod",), reviewed=("camera",)) is Skip.PRODUCTS_DISABLED
    assert list(ORDER.products_in_stores()) == [ProductInStore("shop", "camera"), ProductInStore("shop", "tripod")]


def test_dates_do_not_underflow() -> None:
    first = datetime.min.replace(tzinfo=UTC)
    settings = replace(SETTINGS, days_in_status=10, max_age_days=30, limit_period_days=90)
    assert earliest_status_since(settings, first + 39 * DAY) == first
    assert earliest_status_since(settings, first + 41 * DAY) == first + DAY
    assert latest_counted_from(settings, first + DAY) == first
    assert latest_counted_from(settings, first + 11 * DAY) == first + DAY
    assert SentReminders(2, (first, first)).counted(settings, first + DAY) == 0


def test_viewed_request_ends_reminders_for_good() -> None:
    seen = ReminderState(1, NOON - 20 * DAY).viewed()
    assert seen == ReminderState(1, NOON - 20 * DAY, is_over=True, is_viewed=True)
    assert outcome(replace(ORDER, reminders=seen)) is Skip.VIEWED
    assert outcome(replace(ORDER, reminders=seen), after=DAY) is Skip.VIEWED, "no day on which it becomes due"
    known = replace(after_event(None, an_event(0), "0"), reminders=seen)
    assert after_event(known, an_event(1), "1").reminders == seen


def test_finished_order_stays_so_until_an_event_changes_it() -> None:
    """Even if the reason has passed: no run reads the order. A reason that still holds is returned."""
    over = replace(ORDER, reminders=ReminderState(is_over=True))
    assert outcome(over) is Skip.OVER
    assert outcome(over, reviewed=("tripod", "camera")) is Skip.EVERYTHING_REVIEWED
    sent: dict[str, SentReminders] = {}
    (decided,) = decide_in_turn([over], sent, run_of())
    assert (decided.decision, decided.is_changed, sent) == (Skip.OVER, False, {})
    assert isinstance(outcome(replace(over, reminders=over.reminders.after_news())), Reminder)


def test_limit_holds_within_its_period() -> None:
    settings = replace(SETTINGS, limit_period_days=30, max_emails_per_customer=1)
    assert decide(ORDER, sent_at(1, -19), run_of(settings)) is Skip.CUSTOMER_LIMIT
    # A reminder sent 30 days ago has left the period.
    assert decide(ORDER, sent_at(1, -20), run_of(settings)) == outcome()
    assert decide(ORDER, sent_at(2, -2_000), run_of()) is Skip.CUSTOMER_LIMIT


@given(
    st.lists(st.integers(-60, 10), max_size=8),
    st.integers(1, 4),
    st.integers(1, 40),
)
def test_limited_order_is_found_once_the_period_is_over(sent: list[int], limit: int, period: int) -> None:
    """The index relies on it: below the limit, or by the time of the reminder that has to leave the period."""
    settings = replace(SETTINGS, limit_period_days=period, max_emails_per_customer=limit)
    counts = {"anna": SentReminders(len(sent), tuple(NOON + day * DAY for day in sorted(sent)))}
    (decided,) = decide_in_turn([ORDER], counts, run_of(settings))
    state = decided.order.reminders
    for day in range(10, 60):
        then = NOON + day * DAY
        is_found = state.sent_to_customer < limit or (state.limit_since or then) <= then - period * DAY
        is_free = counts["anna"].counted(settings, then) < limit
        if is_free:
            assert is_found
        elif decided.decision is Skip.CUSTOMER_LIMIT:
            assert not is_found


@given(st.lists(st.integers(0, 50), max_size=60))
def test_times_of_reminders_are_sorted_and_bounded(days: list[int]) -> None:
    sent = SentReminders()
    for day in days:
        sent = sent.after(NOON + day * DAY)
    assert sent == SentReminders(len(days), tuple(NOON + day * DAY for day in sorted(days)))
    full = SentReminders(MOST_TIMES, (NOON,) * MOST_TIMES).after(NOON + DAY)
    assert (full.count, len(full.times), full.times[-1]) == (MOST_TIMES + 1, MOST_TIMES, NOON + DAY)
