import json
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from domain.delivery import RecordPosition
from domain.objects import Description, Fact, ObjectFacts, ObjectKey, description, is_closed, object_name
from domain.ratings import Entity
from messaging.objects import OBJECT_UPDATE

CAMERA = Entity("Product", "camera")
HERE, EVERYWHERE = ObjectKey(CAMERA, "shop"), ObjectKey(CAMERA, None)

updates = st.lists(
    st.tuples(st.dictionaries(st.sampled_from("abc"), st.text(max_size=3) | st.booleans()), st.integers(0, 3)),
    max_size=4,
)


@given(updates)
def test_any_order_of_records_leads_to_the_newest_facts(updates_given: list[tuple[dict[str, Fact], int]]) -> None:
    records = [(facts, RecordPosition(0, offset, time)) for offset, (facts, time) in enumerate(updates_given)]
    states = set()
    for order in permutations(records):
        state = ObjectFacts()
        for facts, position in (*order, *order[:1]):
            state = state.after(facts, position)
        states.add((tuple(sorted(state.facts.items())), tuple(sorted(state.records.items()))))
    assert len(states) == 1
    newest: dict[str, Fact] = {}
    for facts, _ in sorted(records, key=lambda record: (record[1].timestamp, record[1].offset)):
        newest |= facts
    assert dict(next(iter(states))[0]) == newest


def test_old_or_repeated_records_change_nothing() -> None:
    known = ObjectFacts().after({"name": "Camera"}, RecordPosition(0, 5, 10))
    assert known.after({"name": "Kamera"}, RecordPosition(0, 4, 10)) is known
    assert known.after({"name": "Camera"}, RecordPosition(0, 5, 10)) is known
    assert known.after({}, RecordPosition(0, 9, 90)) is known
    assert known.after({"name": "Kamera"}, RecordPosition(1, 0, 10)).facts == {"name": "Kamera"}


@pytest.mark.parametrize(
    ("here", "everywhere", "expected"),
    [
        (None, None, False),
        (None, True, False),
        (None, False, True),
        (True, False, False),
        (False, True, True),
        (False, None, True),
    ],
)
def test_facts_of_store_override_shared_ones(here: bool | None, everywhere: bool | None, expected: bool) -> None:
    values = {HERE: here, EVERYWHERE: everywhere}
    objects = {
        place: ObjectFacts({"reviewsEnabled": value, "name": str(place.store_id)})
        for place, value in values.items()
        if value is not None
    }
    assert is_closed(objects, HERE) is expected
    assert is_closed(objects, EVERYWHERE) is (everywhere is False)
    name = "shop" if here is not None else "None" if everywhere is not None else None
    assert object_name(objects, HERE) == name
    assert not is_closed({HERE: ObjectFacts({"name": "x"}), **objects}, ObjectKey(Entity("Vendor", "camera"), "shop"))


def test_description_has_all_published_facts() -> None:
    texts = {"name": "Camera", "url": "https://shop.example/c", "imageUrl": "https://shop.example/i"}
    codes = {"gtins": ("1", "2"), "mpns": ("3",), "skus": ("4",), "brands": ("Acme",)}
    pages = ("Camera", "https://shop.example/c", "https://shop.example/i")
    expected = Description(*pages, ("1", "2"), ("3",), ("4",), ("Acme",))
    assert description({HERE: ObjectFacts({**texts, **codes})}, HERE) == expected
    elsewhere = ObjectFacts({**dict.fromkeys(texts, "overridden"), **codes})
    assert description({HERE: ObjectFacts(texts), EVERYWHERE: elsewhere}, HERE) == expected
    assert description({}, HERE) == Description()


@pytest.mark.parametrize("fact", [True, ("a",)], ids=str)
def test_fact_that_is_no_text_is_ignored(fact: Fact) -> None:
    facts = {HERE: ObjectFacts(dict.fromkeys(("name", "url", "imageUrl"), fact))}
    assert object_name(facts, HERE) is None
    assert description(facts, HERE) == Description()


@pytest.mark.parametrize("fact", [True, "a"], ids=str)
def test_fact_that_is_no_list_is_ignored(fact: Fact) -> None:
    facts = {HERE: ObjectFacts(dict.fromkeys(("gtins", "mpns", "skus", "brands"), fact))}
    assert description(facts, HERE) == Description()


def test_update_has_only_the_facts_it_names() -> None:
    fields = {"entityType": "Product", "entityId": "camera", "storeId": "shop", "url": None, "gtins": ["1", "2"]}
    update = OBJECT_UPDATE.validate_python({**fields, "gtins": ("1", "2"), "reviewsEnabled": False})
    assert update.object_key == HERE
    assert update.facts() == {"gtins": ("1", "2"), "reviewsEnabled": False}
    assert OBJECT_UPDATE.validate_json(b'{"entityType":"Product","entityId":"camera"}').facts() == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"entityId": ""},
        {"entityId": "x" * 129},
        {"name": "x" * 1_025},
        {"url": "javascript:alert(1)"},
        {"imageUrl": "https://shop.example/a b"},
        {"imageUrl": "https:///a"},
        {"gtins": "1"},
        {"skus": ["1"] * 101},
        {"reviewsEnabled": "no"},
    ],
    ids=str,
)
def test_invalid_updates_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OBJECT_UPDATE.validate_json(json.dumps({"entityType": "Product", "entityId": "camera", **wrong}))
