import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.orders import Customer
from domain.ratings import Entity
from domain.reminders import Item, Reminder, ReviewableOrder
from domain.review_tokens import VALIDITY, ReviewToken, TokenLine, sign_token, tokens_of, verify_proof, verify_token
from domain.review_urls import URL_LENGTH, check_review_url, review_url
from domain.reviews import ReviewIdentity
from domain.reviews_refusals import Refusal
from messaging.reviews import ONE_SUBMISSION
from plaudit.secret_settings import ReviewTokenSettings

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KEY, OTHER = b"k" * 32, b"o" * 32
TOKEN = ReviewToken("shop", "o1", "1", "camera", "anna", NOON + VALIDITY)
REVIEW = ReviewIdentity(Entity("Product", "camera"), "shop", "anna")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.none() | texts, texts, texts, texts, texts, st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1)))
def test_signed_token_round_trips(
    store: str | None, order: str, line: str, product: str, customer: str, expires: datetime
) -> None:
    token = ReviewToken(store, order, line, product, customer, expires.replace(microsecond=0, tzinfo=UTC))
    text = sign_token(token, KEY)
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    assert verify_token(text, [OTHER, KEY], token.expires - SECOND) == token
    assert verify_token(text, [OTHER], token.expires - SECOND) is Refusal.INVALID_PROOF
    assert verify_token(text, [], token.expires - SECOND) is Refusal.INVALID_PROOF


@given(st.data())
def test_any_change_is_detected(data: st.DataObject) -> None:
    text = sign_token(TOKEN, KEY)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != text[at]))
    for changed in (text[:at] + other + text[at + 1 :], text[:at], text[:at] + text[at + 1 :], text + other):
        assert verify_token(changed, [KEY], NOON) is Refusal.INVALID_PROOF


@given(st.text() | st.binary().map(lambda b: urlsafe_b64encode(b).decode() + "."))
@example("\ud800.\udfff")
def test_arbitrary_text_is_no_token(text: str) -> None:
    assert verify_token(text, [KEY], NOON) is Refusal.INVALID_PROOF


def test_token_is_compact() -> None:
    token = replace(TOKEN, order_id="o" * 32, line_id="l" * 32, product_id="p" * 32, customer_id="c" * 32)
    assert len(sign_token(token, KEY)) < 300
    payload, signature = sign_token(replace(TOKEN, customer_id="zoë"), KEY).split(".")
    assert urlsafe_b64decode(payload + "==") == '["shop","o1","1","camera","zoë",1775044800]'.encode()
    assert len(signature) == 43


def test_token_expires_after_ninety_days() -> None:
    text = sign_token(TOKEN, KEY)
    assert timedelta(days=90) == VALIDITY
    assert verify_token(text, [KEY], NOON + timedelta(days=90) - SECOND) == TOKEN
    assert verify_token(text, [KEY], NOON + timedelta(days=90)) is Refusal.EXPIRED_PROOF


@pytest.mark.parametrize(
    "review",
    [
        REVIEW._replace(entity=Entity("Product", "tripod")),
        REVIEW._replace(entity=Entity("Vendor", "camera")),
        REVIEW._replace(store_id="other"),
        REVIEW._replace(store_id=None),
        REVIEW._replace(user_id="bert"),
    ],
    ids=str,
)
def test_token_is_valid_only_for_its_order_line(review: ReviewIdentity) -> None:
    text = sign_token(TOKEN, KEY)
    assert verify_proof(text, review, [KEY], NOON) is Refusal.MISMATCHED_PROOF
    assert verify_proof(text, review, [OTHER], NOON) is Refusal.INVALID_PROOF
    assert verify_proof(text, REVIEW, [KEY], NOON) == TOKEN
    assert verify_proof(text, REVIEW._replace(user_id=None), [KEY], NOON) == TOKEN


def test_submission_has_the_author_of_its_token() -> None:
    given = {"storeId": "shop", "entityId": "camera", "entityType": "Product", "review": "Good", "rating": 5}
    review = ONE_SUBMISSION.validate_python({**given, "token": sign_token(TOKEN, KEY)})
    assert review.by_author([KEY], NOON).user_id == "anna"
    assert review.by_author([OTHER], NOON) is review
    assert review.by_author([KEY], NOON).proof([KEY], NOON) == TOKEN
    bert = review.model_copy(update={"user_id": "bert"})
    assert bert.by_author([KEY], NOON) is bert
    assert ONE_SUBMISSION.validate_python({**given, "token": ""}).proof([KEY], NOON) is None
    assert sign_token(TOKEN, KEY) not in repr(review) + repr(review.accepted("r", NOON))


def test_tokens_of_a_reminder() -> None:
    anna = Customer("anna", "Anna", "anna@example.com")
    items = (Item("camera", "Camera", "1"), Item("tripod", "Tripod", "7"))
    order = ReviewableOrder("o1", "CO1", "Complete", False, "shop", anna, NOON, items)
    first, second = tokens_of(Reminder("r", "anna@example.com", "anna", items), order, NOON)
    assert first == TOKEN
    assert second == replace(TOKEN, product_id="tripod", line_id="7")
    assert [first.line, second.line] == [TokenLine("o1", "1", "camera"), TokenLine("o1", "7", "tripod")]


@pytest.mark.parametrize(
    "template",
    [
        "",
        "https://shop.example/review?product={productId}&token={token}",
        "http://localhost:3000/{storeId}/{orderId}/{orderLineItemId}/{languageCode}#{token}",
        "https://shop.example/review",
        *("https://SHOP.example:1/X", "https://s/".ljust(URL_LENGTH, "x")),
    ],
)
def test_valid_review_urls(template: str) -> None:
    check_review_url(template)


NO_BEGINNING = "Use an address that begins with https:// or http:// and a host"
NO_HOST = "Placeholders are only allowed after the host"
NO_TEXT = "The address contains characters that must be percent-encoded"
NAMES = "use {productId}, {token}, {storeId}, {orderId}, {orderLineItemId}, {languageCode}"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        *(
            (each, NO_BEGINNING)
            for each in ("shop.example/{token}", "ftp://shop.example/{token}", "javascript:alert(1)")
        ),
        *((each, NO_BEGINNING) for each in ("https:///x", "//shop.example/x", "{token}", "https://a@shop.example/")),
        *((each, NO_BEGINNING) for each in ("https://shop.example:0/", "https://@shop.example/")),
        *((each, NO_HOST) for each in ("https://{storeId}.example/", "https://s{token}/")),
        *((f"https://s/{each}", NO_TEXT) for each in (" {token}", '"{token}', "ö", "\n", "{token}\x7f")),
        *(
            (each, f"There is no placeholder {{tokn}}: {NAMES}")
            for each in ("https://s/{tokn}", "https://s/{{}}{tokn}")
        ),
        *((f"https://s/{{{each}}}", f"There is no placeholder {{{each}}}: {NAMES}") for each in ("", "0", "token.x")),
        *((f"https://s/{{token{each}}}", "Write {token} without a format") for each in ("!r", ":9")),
        ("https://s/{token", "The address can't be read: "),
        ("https://[::1/{token}", "The address can't be read: "),
        ("https://s:x/", "The address can't be read: "),
        ("https://s/".ljust(URL_LENGTH + 1, "x"), "The address has more than 1024 characters"),
    ],
)
def test_invalid_review_urls_are_refused_with_reason(template: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}"):
        check_review_url(template)


def test_placeholders_are_replaced_by_encoded_values() -> None:
    token = replace(TOKEN, store_id="a/b", order_id="c d", line_id="#1", product_id="ö")
    template = "https://s/{storeId}/{orderId}/{orderLineItemId}/{productId}/{languageCode}#{token}"
    assert review_url(template, token, "t.x", "de-AT") == "https://s/a%2Fb/c%20d/%231/%C3%B6/de-AT#t.x"
    for none in (None, ""):
        assert review_url(template, token, "t.x", none) is None
        assert review_url("https://s/{{languageCode}}", token, "t.x", none) == "https://s/{languageCode}"


@given(texts.filter(bool), texts.filter(bool))
def test_values_cannot_change_the_structure_of_the_url(product: str, order: str) -> None:
    token = replace(TOKEN, product_id=product, order_id=order, store_id=None)
    text = sign_token(token, KEY)
    url = review_url("https://shop.example/r?p={productId}&o={orderId}&t={token}&s={storeId}", token, text)
    parts = urlsplit(url or "")
    assert (parts.scheme, parts.netloc, parts.path, parts.fragment) == ("https", "shop.example", "/r", "")
    assert parse_qs(parts.query, strict_parsing=True, keep_blank_values=True) == {
        **{"p": [product], "o": [order], "t": [text], "s": [""]}
    }


def test_signing_keys_of_the_configuration() -> None:
    assert ReviewTokenSettings().keys() == []
    first, second = "a" * 32, "b" * 40
    assert ReviewTokenSettings.model_validate({"key": f"{first}, {second}"}).keys() == [first.encode(), second.encode()]
    for short in ("a" * 31, f"{first},", f"{first},b"):
        with pytest.raises(ValueError, match="32 characters"):
            ReviewTokenSettings.model_validate({"key": short})
