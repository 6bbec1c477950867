"""Form stamps, proof-of-work checks, rates per address, and visitor ids."""

import hmac
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from json import dumps

import pytest
from altcha.v1 import solve_challenge
from hypothesis import given
from hypothesis import strategies as st

from api.web.problems import ProblemError
from domain.forms import LEAST_TIME, MOST_TIME, FormRefusal, check_key, new_stamp, refusal_of_stamp
from domain.objects import ObjectKey
from domain.ratings import Entity
from storefront.challenges import LIFETIME, MOST_WORK, Challenge, new_challenge, refusal_of_check
from storefront.rates import HourlyRate
from tests.support.service import Json

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY, OTHER = b"k" * 32, b"o" * 32
PLACE = ObjectKey(Entity("Product", "camera"), "shop")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
places = st.builds(lambda type, id, store: ObjectKey(Entity(type, id), store), texts, texts, texts)


@given(places, places, st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1)))
def test_stamp_is_valid_for_its_object_and_store(place: ObjectKey, other: ObjectKey, opened: datetime) -> None:
    at = opened.replace(tzinfo=UTC)
    text = new_stamp(place, at, KEY)
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert refusal_of_stamp(text, place, [OTHER, KEY], at + LEAST_TIME) is None
    assert refusal_of_stamp(text, place, [OTHER], at + LEAST_TIME) is FormRefusal.STAMP_INVALID
    assert refusal_of_stamp(text, place, [], at + LEAST_TIME) is FormRefusal.STAMP_INVALID
    expected = None if other == place else FormRefusal.STAMP_INVALID
    assert refusal_of_stamp(text, other, [KEY], at + LEAST_TIME) is expected


def test_signed_content_is_stable() -> None:
    about = dumps(["shop", "Product", "camera"])
    moment = str(round(NOON.timestamp() * 1_000))
    signed = f"plaudit form stamp 1\n{dumps(['shop', 'Product', 'camera', moment])}".encode()
    signature = urlsafe_b64encode(hmac.digest(KEY, signed, "sha256")).decode().rstrip("=")
    assert new_stamp(PLACE, NOON, KEY) == f"{moment}.{signature}"
    assert check_key(PLACE, KEY) == hmac.digest(KEY, f"plaudit form check 1\n{about}".encode(), "sha256")


@pytest.mark.parametrize("text", [".", "x", "1", "1.\ud800", "\ud800.", "1767268800000.x.y"])
def test_malformed_stamps_are_refused(text: str) -> None:
    assert refusal_of_stamp(text, PLACE, [KEY], NOON) is FormRefusal.STAMP_INVALID


def test_stamp_validity_period() -> None:
    text = new_stamp(PLACE, NOON, KEY)

    def after(time: timedelta, **least: timedelta) -> FormRefusal | None:
        return refusal_of_stamp(text, PLACE, [KEY], NOON + time, **least)

    assert after(LEAST_TIME - timedelta(milliseconds=1)) is FormRefusal.TOO_FAST
    assert after(LEAST_TIME) is after(MOST_TIME) is None
    assert after(MOST_TIME + SECOND) is FormRefusal.STAMP_EXPIRED
    assert after(timedelta(0), least=timedelta(0)) is None
    assert after(-SECOND) is FormRefusal.TOO_FAST
    assert refusal_of_stamp(None, PLACE, [KEY], NOON) is refusal_of_stamp("", PLACE, [KEY], NOON)
    assert refusal_of_stamp("", PLACE, [KEY], NOON) is FormRefusal.STAMP_MISSING


@given(st.data())
def test_changed_stamps_are_refused(data: st.DataObject) -> None:
    text = new_stamp(PLACE, NOON, KEY)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != text[at]))
    for changed in (text[:at] + other + text[at + 1 :], text[:at], text[:at] + text[at + 1 :], text + other):
        if changed:
            assert refusal_of_stamp(changed, PLACE, [KEY], NOON + LEAST_TIME) is FormRefusal.STAMP_INVALID


@pytest.mark.parametrize("reason", FormRefusal)
def test_refusals_have_advice_and_a_field(reason: FormRefusal) -> None:
    assert ":" in reason.message
    assert reason.field in {"stamp", "website", "check"}


def solve(challenge: Challenge, /, **changed: object) -> str:
    found = solve_challenge(challenge["challenge"], challenge["salt"], "SHA-256", challenge["maxnumber"])
    assert found is not None
    solution: Json = {**challenge, "number": found.number, "took": 12, **changed}
    return b64encode(dumps(solution).encode()).decode()


def test_check_is_valid_for_its_object_and_lifetime() -> None:
    now = datetime.now(UTC)
    key = check_key(PLACE, KEY)
    challenge = new_challenge(key, now)
    assert challenge["maxnumber"] == MOST_WORK
    solution = solve(challenge)
    assert refusal_of_check(solution, [OTHER, key]) is None
    elsewhere = check_key(PLACE._replace(store_id="other"), KEY)
    for keys in ([], [KEY], [elsewhere]):
        assert refusal_of_check(solution, keys) is FormRefusal.CHECK_FAILED
    old = new_challenge(key, now - LIFETIME - SECOND)
    assert refusal_of_check(solve(old), [key]) is FormRefusal.CHECK_EXPIRED
    late = old["salt"].replace("expires=", "expires=9")
    assert refusal_of_check(solve(old, salt=late), [key]) is FormRefusal.CHECK_FAILED


@pytest.mark.parametrize(
    "changed",
    [
        *({"number": -1}, {"number": "1"}, {"number": None}, {"number": 10**30}, {"algorithm": "SHA-1"}),
        *({"algorithm": "md5"}, {"salt": ["x"]}, {"salt": "\ud800"}, {"salt": ""}, {"signature": ""}, {"challenge": 1}),
    ],
)
def test_manipulated_check_is_refused(changed: Json) -> None:
    key = check_key(PLACE, KEY)
    assert refusal_of_check(solve(new_challenge(key, datetime.now(UTC)), **changed), [key]) is FormRefusal.CHECK_FAILED


@pytest.mark.parametrize("text", ["x", "e30=", "W10=", "MQ==", "bnVsbA==", "\ud800", "é", "e30", "/" * 2_048])
def test_malformed_check_is_refused(text: str) -> None:
    assert refusal_of_check(text, [KEY]) is FormRefusal.CHECK_FAILED
    assert refusal_of_check("", [KEY]) is refusal_of_check(None, [KEY]) is FormRefusal.CHECK_MISSING


def test_hourly_rate_per_address_and_subject() -> None:
    rate = HourlyRate(2, "votes")
    for address in ("a", "b"):
        for thing in ("1", "2", "1", "2"):
            rate.take(address, thing)
        with pytest.raises(ProblemError, match="More than 2 votes an hour about the same"):
            rate.take(address, "1")
    for number in range(15):
        rate.take("a", str(number + 3))
    with pytest.raises(ProblemError, match="More than 20 votes an hour") as refused:
        rate.take("a", "100")
    assert refused.value.kind.status == 429
    assert int(refused.value.headers["Retry-After"]) <= 180
    single = HourlyRate(1, "votes")
    single.take("a", "1")
    with pytest.raises(ProblemError, match="More than 1 vote an hour about the same"):
        single.take("a", "1")
    unlimited = HourlyRate(0, "votes")
    for _ in range(100):
        unlimited.take("a", "1")
