"""Review tokens: proof, without a login, that their bearer bought the product of an order line.

A token is a payload, a dot and the payload's HMAC-SHA-256, both parts in base64url. The payload is a JSON array. The
signature covers the encoded payload, so that a token has exactly one spelling.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from domain import base64url
from domain.ratings import Entity
from domain.reminders import PRODUCT, Reminder, ReviewableOrder
from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal
from domain.signatures import is_signed, signature

VALIDITY: Final = timedelta(days=90)
KEY_LENGTH: Final = 32
"""Minimum number of characters of a key."""

_LABEL: Final = b"plaudit review token 1\n"


class TokenLine(NamedTuple):
    """An order line and its product, for which a token can be used once. Several lines of an order may share an id."""

    order_id: str
    line_id: str
    product_id: str


@dataclass(frozen=True, slots=True)
class ReviewToken:
    """The purchase that a token proves: of a product, by a customer's order line, in a store or without a store."""

    store_id: str | None
    order_id: str
    line_id: str
    product_id: str
    customer_id: str
    expires: datetime

    @property
    def line(self) -> TokenLine:
        """The order line and its product."""
        return TokenLine(self.order_id, self.line_id, self.product_id)

    @property
    def identity(self) -> ReviewIdentity:
        """The identity of the review that the token is for."""
        return ReviewIdentity(Entity(PRODUCT, self.product_id), self.store_id, self.customer_id)


def tokens_of(reminder: Reminder, order: ReviewableOrder, now: datetime) -> list[ReviewToken]:
    """The tokens of a reminder, one for each of its items."""
    return [
        ReviewToken(order.store_id, order.id, item.line_id, item.product_id, reminder.customer_id, now + VALIDITY)
        for item in reminder.items
    ]


def sign_token(token: ReviewToken, key: bytes) -> str:
    """The token as URL-safe text. Its expiry is in whole seconds."""
    fields = [token.store_id, token.order_id, token.line_id, token.product_id, token.customer_id]
    written = json.dumps([*fields, int(token.expires.timestamp())], ensure_ascii=False, separators=(",", ":"))
    payload = base64url.encoded(written.encode())
    return f"{payload}.{signature(_signed_part(payload), key)}"


def verify_token(text: str, keys: Sequence[bytes], at: datetime) -> ReviewToken | Refusal:
    """The token in a text signed by one of these keys, or the reason why it proves nothing at that moment."""
    payload, _, found = text.partition(".")
    if not is_signed(_signed_part(payload), found, keys):
        return Refusal.INVALID_PROOF
    store_id, order_id, line_id, product_id, customer_id, expires = json.loads(base64url.decoded(payload))
    token = ReviewToken(store_id, order_id, line_id, product_id, customer_id, datetime.fromtimestamp(expires, UTC))
    return token if at < token.expires else Refusal.EXPIRED_PROOF


def verify_proof(text: str, review: ReviewIdentity, keys: Sequence[bytes], at: datetime) -> ReviewToken | Refusal:
    """The token that comes with a review, or the reason why it doesn't prove it. The review may omit its author."""
    token = verify_token(text, keys, at)
    if isinstance(token, Refusal):
        return token
    claimed = review if review.user_id is not None else review._replace(user_id=token.customer_id)
    return token if claimed == token.identity else Refusal.MISMATCHED_PROOF


def _signed_part(payload: str) -> bytes:
    return _LABEL + payload.encode(errors="surrogatepass")
