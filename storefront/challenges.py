"""Proof of work by the browser that submits a review: challenges of ALTCHA (https://altcha.org), version 1."""

from base64 import b64decode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from altcha.v1 import ChallengeOptions, Payload, create_challenge, verify_solution
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from domain.forms import FormRefusal
from messaging.reading import Reader
from messaging.reading_errors import InvalidContentError
from messaging.schemas import Message

LIFETIME: Final = timedelta(minutes=30)
MOST_WORK: Final = 100_000
"""Maximum number of hashes for a solution, twice the average: about a second in a browser."""

_ALGORITHM: Final = "SHA-256"


class Challenge(TypedDict):
    """A challenge: find the number, up to `maxnumber`, for which SHA-256 of `salt` and its digits is `challenge`."""

    algorithm: str
    challenge: str
    salt: str
    maxnumber: int
    signature: str


class Solution(Message):
    """A solved challenge, as the browser sends it."""

    algorithm: str
    challenge: str
    number: int
    salt: str
    signature: str


_SOLUTION: Final[Reader[Solution]] = Reader(TypeAdapter(Solution))


def new_challenge(key: bytes, at: datetime) -> Challenge:
    """A challenge signed with this key, whose solution is valid for LIFETIME from that moment on."""
    made = create_challenge(ChallengeOptions(_ALGORITHM, MOST_WORK, hmac_key=key, expires=at + LIFETIME))
    return {
        "algorithm": made.algorithm,
        "challenge": made.challenge,
        "salt": made.salt,
        "maxnumber": made.max_number,
        "signature": made.signature,
    }


def refusal_of_check(text: str | None, keys: Sequence[bytes]) -> FormRefusal | None:
    """The reason to refuse a solution, in base64; None if it solves a challenge signed with one of these keys.

    A solution is valid for any number of reviews of its object until it expires.
    """
    if not text:
        return FormRefusal.CHECK_MISSING
    try:
        found = _SOLUTION.read(b64decode(text, validate=True)).content
    except (ValueError, InvalidContentError):
        return FormRefusal.CHECK_FAILED
    if found.algorithm != _ALGORITHM:
        return FormRefusal.CHECK_FAILED
    payload = Payload(_ALGORITHM, found.challenge, found.number, found.salt, found.signature)
    if not any(verify_solution(payload, key, check_expires=False)[0] for key in keys):
        return FormRefusal.CHECK_FAILED
    _, expires, _ = payload.parse_salt()
    is_over = expires is None or expires < datetime.now(UTC).timestamp()
    return FormRefusal.CHECK_EXPIRED if is_over else None
