"""Validation of bearer tokens, and the keys that it needs."""

import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta, tzinfo
from time import monotonic
from typing import Any

import jwt
import pytest

from api.auth import keys_of_issuer
from api.auth.authentication import KeysAwayError, RefusedCredentialError
from api.auth.keys_of_issuer import FetchedKeys, StaticKey
from api.auth.tokens import TokenRules, Tokens
from domain.permissions import Caller, Permission
from tests.support.clock import Clock
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, Mood, ec_key, jwk, pem, rsa_key, running_issuer

ALGORITHMS = ("RS256", "ES256")
RULES = TokenRules(ISSUER, AUDIENCE, ALGORITHMS, leeway=5)


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that determines the age of cached keys."""
    clock = Clock(1_000)
    monkeypatch.setattr(keys_of_issuer, "monotonic", clock)
    return clock


@pytest.fixture
def tokens(issuer: Issuer) -> Tokens:
    return Tokens(FetchedKeys(issuer.jwks_url, ALGORITHMS, lifetime=300), RULES)


@pytest.fixture(autouse=True)
def set_timeout(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set a generous timeout for the issuer, for busy machines; call the fixture to shorten it."""

    def apply(seconds: float) -> None:
        monkeypatch.setattr(keys_of_issuer, "_TIMEOUT_S", seconds)

    apply(60)
    return apply


async def test_token_determines_subject_permissions_and_stores(issuer: Issuer, tokens: Tokens) -> None:
    token = issuer.token(["customerReviews:read", "openid"], ["A", "B"])
    caller = await tokens.caller(token)
    assert caller == Caller("anna", frozenset({Permission.READ_REVIEWS}), frozenset({"A", "B"}))
    assert await tokens.caller(token) == caller
    assert issuer.asked == 1


@pytest.mark.parametrize("scope", ["customerReviews:read  return:read", ["customerReviews:read", "return:read"]])
async def test_scope_is_a_string_or_an_array(issuer: Issuer, tokens: Tokens, scope: Any) -> None:
    caller = await tokens.caller(issuer.token(scope=scope))
    assert caller.permissions == {Permission.READ_REVIEWS, Permission.READ_RETURNS}
    assert caller.stores is None


async def test_token_with_huge_expiry_is_accepted(issuer: Issuer, tokens: Tokens) -> None:
    assert await tokens.caller(issuer.claiming(exp=10**400)) == await tokens.caller(issuer.token())


def _without_signature(token: str) -> str:
    return token.rpartition(".")[0] + "."


def _header(**fields: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")


FORGED: dict[str, Callable[[Issuer], str]] = {
    "no token": lambda _: "",
    "not a token": lambda _: "plaudit",
    "two parts": lambda i: _without_signature(i.token())[:-1],
    "no signature": lambda i: _without_signature(i.token()),
    "none algorithm": lambda i: i.token(key="", algorithm="none"),
    "none algorithm, other letter case": lambda i: f"{_header(alg='nOnE', kid='first')}.{i.token().split('.')[1]}.",
    "no algorithm": lambda i: f"{_header(kid='first')}.{i.token().split('.', 1)[1]}",
    "another key": lambda i: i.token(key=rsa_key()),
    "another kind of key": lambda i: i.token(key=ec_key()),
    "another payload": lambda i: ".".join(
        [i.token().split(".")[0], i.token(subject="eve").split(".")[1], i.token().split(".")[2]]
    ),
    "another issuer": lambda i: i.token(iss="https://elsewhere.test"),
    "issuer with more behind it": lambda i: i.token(iss=f"{ISSUER}.evil.test"),
    "no issuer": lambda i: i.token(iss=None),
    "another audience": lambda i: i.token(aud="shop"),
    "no audience": lambda i: i.token(aud=None),
    "no expiry": lambda i: i.token(exp=None),
    "expired": lambda i: i.token(exp=int(time.time()) - 10),
    "expiry that is no number": lambda i: i.token(exp="tomorrow"),
    "endless expiry": lambda i: i.token(exp=float("inf")),
    "not yet valid": lambda i: i.token(nbf=int(time.time()) + 600),
    "issued in the future": lambda i: i.token(iat=int(time.time()) + 600),
    "no subject": lambda i: i.token(sub=None),
    "empty subject": lambda i: i.token(subject=""),
    "blank subject": lambda i: i.token(subject=" "),
    "subject of a rule": lambda i: i.token(subject="rule:links"),
    "subject of a classifier": lambda i: i.token(subject="verdict:toxicity"),
    "endless subject": lambda i: i.token(subject="a" * 129),
    "subject with a line break": lambda i: i.token(subject="anna\nadmin"),
    "unknown key id": lambda i: i.token(kid="second", key=rsa_key()),
    "key id that is a path": lambda i: i.token(kid="../../dev/null", key=rsa_key()),
    "key id that is no string": lambda i: f"{_header(alg='RS256', kid=1)}.{i.token().split('.', 1)[1]}",
    "key of its own": lambda i: i.token(kid=None, key=rsa_key(), headers={"jwk": {"kty": "oct", "k": "AAAA"}}),
    "critical extension": lambda i: i.token(headers={"crit": ["exp"]}),
    "huge": lambda i: i.token(padding="a" * 10_000),
    "stores in a string": lambda i: i.claiming(stores="A"),
    "stores in an object": lambda i: i.claiming(stores={"A": True}),
    "stores that are null": lambda i: i.claiming(stores=None),
    "stores that are numbers": lambda i: i.claiming(stores=[1]),
    "stores that can't be stored": lambda i: i.claiming(stores=["\ud800"]),
    "a subject that can't be stored": lambda i: i.claiming(sub="\udfff"),
    "permissions that are a number": lambda i: i.token(scope=1),
}


@pytest.mark.long
@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_forged_tokens_are_refused(issuer: Issuer, tokens: Tokens, forge: Callable[[Issuer], str]) -> None:
    with pytest.raises(RefusedCredentialError):
        await tokens.caller(forge(issuer))
    # Valid tokens are still accepted.
    assert (await tokens.caller(issuer.token())).subject == "anna"


@pytest.mark.parametrize("hmac", ["HS256", "HS384", "HS512"])
@pytest.mark.parametrize("secret", ["pem", "jwk"])
async def test_public_key_is_not_accepted_as_hmac_secret(
    issuer: Issuer, tokens: Tokens, hmac: str, secret: str
) -> None:
    key = issuer.keys["first"]
    public = pem(key) if secret == "pem" else json.dumps(issuer.published_keys()).encode()
    signing = f"{_header(alg=hmac, kid='first')}.{issuer.token().split('.')[1]}"
    signature = jwt.get_algorithm_by_name(hmac).sign(signing.encode(), public)
    forged = f"{signing}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"
    for keys in (tokens, Tokens(StaticKey(pem(key), ALGORITHMS), RULES)):
        with pytest.raises(RefusedCredentialError):
            await keys.caller(forged)


async def test_cached_token_expires(issuer: Issuer, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token = issuer.token(exp=int(time.time()) + 200)
    await tokens.caller(token)
    later, remembered_until = datetime.now(UTC) + timedelta(seconds=206), monotonic() + 205

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Later":
            return cls.fromtimestamp(later.timestamp(), tz)

    monkeypatch.setattr("jwt.api_jwt.datetime", Later)
    # The token is cached, so its expiry isn't checked.
    assert await tokens.caller(token)
    monkeypatch.setattr("api.auth.timed_cache.monotonic", lambda: remembered_until)
    with pytest.raises(RefusedCredentialError, match="expired"):
        await tokens.caller(token)


async def test_key_rotation(issuer: Issuer, tokens: Tokens, clock: Clock) -> None:
    before = issuer.token()
    await tokens.caller(before)
    issuer.keys["second"] = ec_key()
    issuer.published = ["first", "second"]
    clock.now += keys_of_issuer.PAUSE_S
    # The first token with the new key id triggers a fetch; tokens with the old key stay valid.
    assert (await tokens.caller(issuer.token(kid="second", subject="berta"))).subject == "berta"
    assert (await tokens.caller(issuer.token(subject="clara"))).subject == "clara"
    issuer.published = ["second"]
    clock.now += 300
    # Stale keys are used while they are fetched again.
    await tokens.caller(issuer.token(subject="dora"))
    await tokens.caller(issuer.token(kid="second", subject="emma", iat=None))
    assert issuer.asked == 2
    clock.now += 300
    await _check_refetch(issuer, 3, tokens)
    with pytest.raises(RefusedCredentialError):
        await tokens.caller(issuer.token(subject="fanny"))


async def test_unknown_key_ids_trigger_few_fetches(issuer: Issuer, tokens: Tokens, clock: Clock) -> None:
    for number in range(20):
        with pytest.raises(RefusedCredentialError):
            await tokens.caller(issuer.token(kid=f"made up {number}", key=issuer.keys["first"]))
    assert issuer.asked == 1
    clock.now += keys_of_issuer.PAUSE_S
    with pytest.raises(RefusedCredentialError):
        await tokens.caller(issuer.token(kid="made up", key=issuer.keys["first"]))
    assert issuer.asked == 2


@pytest.mark.parametrize("mood", ["hangs", "fails", "floods", "redirects"])
async def test_unavailable_issuer(
    issuer: Issuer, tokens: Tokens, clock: Clock, set_timeout: Callable[[float], None], mood: Mood
) -> None:
    set_timeout(0.2)
    issuer.mood = mood
    with pytest.raises(KeysAwayError):
        await tokens.caller(issuer.token())
    issuer.mood = "answers"
    set_timeout(60)
    clock.now += keys_of_issuer.PAUSE_S
    assert await tokens.caller(issuer.token())
    # Known keys are accepted for a grace period, unknown ones are not.
    issuer.mood = mood
    set_timeout(0.2)
    clock.now += keys_of_issuer.GRACE_S - 1
    assert await tokens.caller(issuer.token(subject="berta"))
    issuer.keys["second"] = ec_key()
    with pytest.raises(KeysAwayError):
        await tokens.caller(issuer.token(kid="second", subject="emma"))
    clock.now += keys_of_issuer.PAUSE_S
    with pytest.raises(KeysAwayError):
        await tokens.caller(issuer.token(subject="clara"))


@pytest.mark.parametrize("kid", [{"a": 1}, ["a"], 7])
async def test_key_with_invalid_id_is_ignored(issuer: Issuer, tokens: Tokens, kid: Any) -> None:
    """Other keys of the set are used."""
    issuer.oddities = [jwk("first", ec_key()) | {"kid": kid}]
    assert (await tokens.caller(issuer.token())).subject == "anna"


async def test_key_from_a_file() -> None:
    key = ec_key()
    issuer = Issuer({"first": key})
    tokens = Tokens(StaticKey(pem(key), ALGORITHMS), RULES)
    assert (await tokens.caller(issuer.token(kid=None))).subject == "anna"
    with pytest.raises(RefusedCredentialError):
        await tokens.caller(issuer.token(key=rsa_key()))
    with pytest.raises(ValueError, match="RS256"):
        StaticKey(pem(key), ["RS256"])
    with pytest.raises(ValueError, match="PEM"):
        StaticKey(b"nothing", ALGORITHMS)


async def _check_refetch(issuer: Issuer, times: int, tokens: Tokens) -> None:
    """Trigger a fetch of the keys with an unknown key id, and check the number of fetches."""
    with pytest.raises(RefusedCredentialError):
        await tokens.caller(issuer.token(kid="nobody's", key=issuer.keys["first"]))
    assert issuer.asked == times


async def test_expiry_as_a_string(issuer: Issuer, tokens: Tokens) -> None:
    assert await tokens.caller(issuer.claiming(exp=str(int(time.time()) + 60)))
