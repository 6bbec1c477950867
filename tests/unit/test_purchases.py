from dataclasses import replace
from datetime import timedelta

from domain.orders import Customer, Purchase, VerifiableReview, after_event, to_mark
from domain.ratings import Entity
from tests.support.domain_orders import NOON, order_of

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
