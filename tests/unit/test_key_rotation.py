"""Rotation of keys as docs/operations.md describes it: while processes are restarted, old and new ones accept what the
others sign."""

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from secrets import token_urlsafe
from typing import Final

import pytest

from console.sign_in.attempts import Attempt, opened_attempt
from console.sign_in.cookies import opened_session, sealed_session
from domain.forms import LEAST_TIME, new_stamp, refusal_of_stamp
from domain.objects import ObjectKey
from domain.ratings import Entity
from domain.review_tokens import ReviewToken, sign_token, verify_token
from domain.sessions import Session, cookie_key
from plaudit.console_settings import ConsoleSettings
from plaudit.secret_settings import ReviewTokenSettings

DOCS: Final = Path(__file__).parents[2] / "docs" / "operations.md"
SECTION: Final = DOCS.read_text().partition("## Rotating keys\n")[2].partition("\n## ")[0]
STEPS: Final = re.findall(r"^\d\. `(\S+)`", SECTION, re.MULTILINE)
NOON: Final = datetime(2026, 3, 14, 12, tzinfo=UTC)
CAMERA: Final = ObjectKey(Entity("Product", "camera"), "shop")
ANNA: Final = Session("s-1", "credential", "anna", NOON)
ATTEMPT: Final = Attempt.begin("/console", NOON)
TOKEN: Final = ReviewToken("shop", "o1", "1", "camera", "anna", NOON + timedelta(days=90))

Keys = Sequence[bytes]


def accepts_stamp(signing: Keys, accepting: Keys) -> bool:
    return refusal_of_stamp(new_stamp(CAMERA, NOON, signing[0]), CAMERA, accepting, NOON + LEAST_TIME) is None


def accepts_token(signing: Keys, accepting: Keys) -> bool:
    return verify_token(sign_token(TOKEN, signing[0]), accepting, NOON) == TOKEN


def accepts_session(signing: Keys, accepting: Keys) -> bool:
    return opened_session(sealed_session(ANNA, signing), accepting, NOON) == ANNA


def accepts_attempt(signing: Keys, accepting: Keys) -> bool:
    return opened_attempt(ATTEMPT.sealed(signing), accepting, NOON) == ATTEMPT


def keys_of_tokens(value: str) -> Keys:
    return ReviewTokenSettings.model_validate({"key": value}).keys()


def keys_of_cookies(value: str) -> Keys:
    return ConsoleSettings.model_validate({"cookie_keys": value}).keys()


@pytest.mark.parametrize("accepts", [accepts_stamp, accepts_token, accepts_session, accepts_attempt])
def test_old_and_new_processes_accept_each_other_at_each_step(accepts: Callable[[Keys, Keys], bool]) -> None:
    generated, new = token_urlsafe(32), b64encode(bytes(32)).decode()
    of_cookies = accepts in (accepts_session, accepts_attempt)
    unset = [cookie_key(generated) if of_cookies else generated.encode()]
    keys_in = keys_of_cookies if of_cookies else keys_of_tokens
    steps = [unset, *(keys_in(step.replace("<old>", generated).replace("<new>", new)) for step in STEPS)]
    assert len(steps) > 1
    for before, after in pairwise(steps):
        assert accepts(before, after)
        assert accepts(after, before)
    assert steps[-1] == keys_in(new)
    # The reason for the order of the steps.
    assert not accepts(keys_in(f"{new},{generated}"), unset)
