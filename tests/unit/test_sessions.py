"""Sealed cookies of the console, and the rules for their use."""

import os
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError
from starlette.responses import Response

from console.sign_in.attempts import ATTEMPT, Attempt, opened_attempt
from console.sign_in.cookies import (
    MOST_CHARACTERS,
    SESSION,
    SealedCookie,
    TooLargeError,
    opened_session,
    sealed_session,
)
from console.sign_in.guard import HOME, is_own_request, way_back
from domain import base64url
from domain.origins import is_confidential, keeps_cookies
from domain.sessions import LIFETIME, Session, cookie_key
from plaudit.console_settings import ConsoleSettings, OpenIdSettings
from tests.support.issuer import Issuer, rsa_key

NOW = datetime(2026, 3, 14, 9, 26, 53, 589_000, UTC)
OLD, NEW = bytes(range(32)), bytes(range(32, 64))
ANNA = Session("s-1", f"plaudit_0123456789ab_{'s' * 43}", "anna", NOW)


def test_session_round_trips() -> None:
    value = sealed_session(ANNA, [NEW])
    assert opened_session(value, [NEW], NOW) == ANNA
    assert ANNA.credential not in value
    # Sealing the same session twice gives different cookies.
    assert sealed_session(ANNA, [NEW]) != value


def test_any_change_of_the_cookie_is_detected() -> None:
    value = sealed_session(ANNA, [NEW])
    sealed = base64url.decoded(value)
    for place in range(len(sealed)):
        for bit in (1, 128):
            changed = bytearray(sealed)
            changed[place] ^= bit
            other = base64url.encoded(bytes(changed))
            assert opened_session(other, [NEW], NOW) is None, place
        assert opened_session(urlsafe_b64encode(sealed[:place]).rstrip(b"=").decode(), [NEW], NOW) is None, place
    for other in ("", "A", "=", f"{value}A", f"{value}=", f"{value} ", f" {value}", "é", value[:-1] + "é"):
        assert opened_session(other, [NEW], NOW) is None, other
    # The last base64 character has bits that belong to no byte: other spellings of it are refused.
    spellings = [value[:-1] + last for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"]
    assert [each for each in spellings if opened_session(each, [NEW], NOW)] == [value]


def test_keys_can_be_rotated() -> None:
    before = sealed_session(ANNA, [OLD])
    assert opened_session(before, [NEW, OLD], NOW) == ANNA
    after = sealed_session(ANNA, [NEW, OLD])
    assert opened_session(after, [NEW], NOW) == ANNA
    assert opened_session(before, [NEW], NOW) is None
    assert opened_session(after, [OLD], NOW) is None


def test_session_expires_after_eight_hours() -> None:
    value = sealed_session(ANNA, [NEW])
    assert opened_session(value, [NEW], NOW + LIFETIME - timedelta(milliseconds=1))
    assert opened_session(value, [NEW], NOW + LIFETIME) is None


def test_cookie_is_valid_only_under_its_own_name() -> None:
    attempt = Attempt.begin("/console", NOW)
    sealed = attempt.sealed([NEW])
    assert opened_attempt(sealed, [NEW], NOW) == attempt
    assert opened_session(sealed, [NEW], NOW) is None
    assert opened_attempt(sealed_session(ANNA, [NEW]), [NEW], NOW) is None
    content = SESSION.open(sealed_session(ANNA, [NEW]), [NEW])
    assert content is not None
    assert opened_session(ATTEMPT.seal(content, [NEW]), [NEW], NOW) is None


def test_sign_in_attempt_expires_after_ten_minutes() -> None:
    sealed = Attempt.begin("/console", NOW).sealed([NEW])
    assert opened_attempt(sealed, [NEW], NOW + timedelta(minutes=9))
    assert opened_attempt(sealed, [NEW], NOW + timedelta(minutes=10)) is None


def test_large_token_fits_and_oversized_one_is_refused() -> None:
    issuer = Issuer({"first": rsa_key()})
    roles = [f"role-{number}-of-the-organisation" for number in range(62)]
    token = issuer.token(["customerReviews:read"], roles=roles)
    assert len(token) > 3_000
    session = Session("s-1", token, "anna", NOW)
    value = sealed_session(session, [NEW])
    assert len(f"{SESSION.name}={value}") < 4_096
    assert opened_session(value, [NEW], NOW) == session
    with pytest.raises(TooLargeError):
        sealed_session(Session("s-1", os.urandom(3_000).hex(), "anna", NOW), [NEW])
    assert len(value) <= MOST_CHARACTERS


@pytest.mark.parametrize("cookie", [SESSION, ATTEMPT])
def test_cookies_are_kept_from_scripts_other_sites_and_networks(cookie: SealedCookie) -> None:
    added, removed = Response(), Response()
    cookie.put(added, "v")
    cookie.remove(removed)
    for response in (added, removed):
        name, *attributes = response.headers["set-cookie"].split("; ")
        assert name.startswith("__Host-plaudit")
        # The `__Host-` prefix requires these; otherwise the browser ignores the cookie.
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=lax"} <= set(attributes)
        assert not [each for each in attributes if each.startswith("Domain")]
    assert f"Max-Age={int(cookie.lifetime.total_seconds())}" in added.headers["set-cookie"]
    assert "Max-Age=0" in removed.headers["set-cookie"]


@pytest.mark.parametrize(
    ("method", "site", "is_own"),
    [
        ("GET", None, True),
        ("HEAD", "cross-site", True),
        ("POST", "same-origin", True),
        ("POST", None, False),
        ("POST", "", False),
        ("POST", "none", False),
        ("POST", "same-site", False),
        ("POST", "cross-site", False),
        ("POST", "same-origin, cross-site", False),
        ("PUT", "same-site", False),
        ("DELETE", None, False),
        ("anything", None, False),
    ],
)
def test_own_requests_are_recognized(method: str, site: str | None, is_own: bool) -> None:
    assert is_own_request(method, site) is is_own


@pytest.mark.parametrize(
    "wanted",
    [
        "/console",
        "/console/",
        "/console/reviews/0195e2c4-0000-7000-8000-000000000001",
        "/console/objects/Product/a%2Fb",
        "/console/queue?store=A&sort=createdDate:asc&q=caf%C3%A9",
        "/console?next=https://elsewhere.test",
        "/console/reviews/x%2Fy",
        "/console/stores/..x%2F%3F/rules",
    ],
)
def test_return_path_is_kept(wanted: str) -> None:
    assert way_back(wanted) == wanted


@pytest.mark.parametrize(
    "wanted",
    [
        *(
            None,
            "",
            "/",
            "/api/me",
            "/consoles",
            "console",
            "https://elsewhere.test/console",
            "//elsewhere.test/console",
        ),
        *("/\\elsewhere.test", "/console\\..\\..", "/console/../api", "/console/%2e%2e/api"),
        *("/console/..%2Fapi", "/console/x%2f%2e%2e%2F..%2Fapi", "/console/.%2F"),
        *("/console/./x", "/console//elsewhere.test", "/console\n", "/console?a\r\nSet-Cookie: x", "/console/é"),
        *("javascript:alert(1)", "/console:8080", "/console@elsewhere.test", "/console/" + "a" * 1_500),
        *("/console/sign-in", "/console/sign-in?next=/console", "/console/sign-in/start", "/console/sign-out"),
    ],
)
def test_foreign_return_path_is_replaced(wanted: str | None) -> None:
    assert way_back(wanted) == HOME


@pytest.mark.parametrize(
    ("scheme", "host", "expected"),
    [
        ("https", "plaudit.example.com", True),
        ("http", "127.0.0.1", True),
        ("http", "127.8.8.8", True),
        ("http", "::1", True),
        ("http", "localhost", True),
        ("http", "plaudit.example.com", False),
        ("http", "192.168.1.2", False),
        ("http", "localhost.example.com", False),
        ("http", "", False),
    ],
)
def test_confidential_origins(scheme: str, host: str, expected: bool) -> None:
    assert is_confidential(scheme, host) is keeps_cookies(scheme, host) is expected


def test_names_below_localhost_keep_cookies_but_are_not_confidential() -> None:
    """Browsers resolve them to this machine; other resolvers may not."""
    assert keeps_cookies("http", "plaudit.localhost")
    assert not is_confidential("http", "plaudit.localhost")
    assert not keeps_cookies("http", "plaudit.localhost.example")


def test_keys_of_cookies() -> None:
    key = b"\xfb\xff" * 16
    url = urlsafe_b64encode(key).decode()
    assert cookie_key(b64encode(key).decode()) == cookie_key(url) == cookie_key(url.rstrip("=")) == key
    both = f"{b64encode(NEW).decode()}, {b64encode(OLD).decode()}"
    settings = ConsoleSettings.model_validate({"cookie_keys": both})
    assert settings.keys() == [NEW, OLD]
    assert ConsoleSettings().keys() == []
    for text in ("short", url[:-4], b64encode(bytes(33)).decode(), "é" * 43, f"{url},"):
        with pytest.raises(ValidationError) as refused:
            ConsoleSettings.model_validate({"cookie_keys": text})
        assert "32 bytes in base64" in str(refused.value), text
        assert url not in str(refused.value.json(include_input=False))


def test_key_with_trailing_characters_is_refused() -> None:
    key = urlsafe_b64encode(NEW).decode().rstrip("=")
    assert cookie_key(f" {key}=\n") == NEW
    for more in ("X", "A", "==X"):
        with pytest.raises(ValueError, match="32 bytes in base64"):
            cookie_key(key + more)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"scopes": "profile"}, "openid must be among"),
        ({"parameters": {"redirect_uri": "https://elsewhere.test", "audience": "a"}}, "redirect_uri"),
        ({"authorize_url": "https://issuer.test/a"}, "set both or neither"),
    ],
)
def test_unusable_client_settings_are_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        OpenIdSettings.model_validate(given)


def test_settings_of_the_pages() -> None:
    given = ConsoleSettings.model_validate({"target_hours": 0.5, "image_origins": ["https://images.example.com:8443"]})
    assert given.target == timedelta(minutes=30)
    for bad in (
        "https://a.example; script-src *",
        "https://a.example/path",
        "*",
        "data:",
        "https://a.example https://b",
    ):
        with pytest.raises(ValidationError, match="must be an origin"):
            ConsoleSettings.model_validate({"image_origins": [bad]})
    for hours in (0, -1, 8_761, "nan"):
        with pytest.raises(ValidationError):
            ConsoleSettings.model_validate({"target_hours": hours})
