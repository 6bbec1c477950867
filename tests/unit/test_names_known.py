"""The cache of names, and pauses before the next request."""

from datetime import UTC, datetime

import pytest

from consumers import names_known as known_names
from consumers.names import Pauses, growing_pause
from consumers.names_known import LIFETIME_S, KnownNames
from domain.entity_types import EntityType, EntityTypes
from domain.ratings import Entity
from domain.reviews import Review
from plaudit.entity_types.resolvers import FunctionResolver
from tests.support.clock import Clock

TYPES = EntityTypes([EntityType("Vendor", get_entity=FunctionResolver(lambda ids: {})), EntityType("Plain")])


def review(type: str = "Vendor", id: str = "1", name: str | None = None) -> Review:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Review("r", Entity(type, id), name, None, None, None, None, "Good", 400, at, at)


@pytest.mark.parametrize("type", ["Plain", "Unregistered"])
def test_no_name_is_wanted_without_a_resolver(type: str) -> None:
    known = KnownNames(TYPES)
    known.learn(Entity(type, "1"), "Name")
    assert known.named(review(type)) == review(type)


def test_own_name_is_kept() -> None:
    assert KnownNames(TYPES).named(review(name="Own")) == review(name="Own")


@pytest.mark.parametrize("missing", [None, ""])
def test_name_is_wanted_until_it_is_known(missing: str | None) -> None:
    clock = Clock()
    known = KnownNames(TYPES, clock)
    first = known.named(review(name=missing))
    assert (first.entity_name, first.name_wanted) == (None, True)
    known.learn(Entity("Vendor", "1"), "Name")
    assert known.named(review(name=missing)) == review(name="Name")
    clock.now = LIFETIME_S + 1
    assert known.named(review(name=missing)).name_wanted


def test_cache_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_names, "CAPACITY", 2)
    known = KnownNames(TYPES)
    for id in ("1", "2", "1", "3"):
        known.learn(Entity("Vendor", id), f"Name {id}")
    wanted = {id: known.named(review(id=id)).name_wanted for id in ("1", "2", "3")}
    assert wanted == {"1": False, "2": True, "3": False}


def test_pauses_grow_up_to_a_limit() -> None:
    assert [growing_pause(attempts, 10) for attempts in (1, 2, 3, 4, 5, 5_000)] == [1, 2, 4, 8, 10, 10]
    pauses = Pauses()
    assert pauses.is_over("a", 0)
    pauses.begin("a", 0, 10)
    assert not pauses.is_over("a", 0.9)
    assert pauses.is_over("a", 1)
    pauses.begin("a", 1, 10)
    assert not pauses.is_over("a", 2.9)
    assert pauses.attempts("a") == 2
    pauses.end("a")
    assert pauses.is_over("a", 0)
    assert pauses.attempts("a") == 0
