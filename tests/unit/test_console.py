"""The console without Kafka and MongoDB: permissions of screens, content security policy, and static files."""

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from pymongo.errors import AutoReconnect
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import console
from api.web.budgets import StalledError
from api.web.limits import RateLimit
from console import static_files
from console.app import SCREENS, add_console
from console.fields import number
from console.navigation import start_page, visible
from console.screens import Screen
from console.templating import address, age, legible, moment
from console.undo import RESTORING
from console.visits import Options
from domain.permissions import ALL_PERMISSIONS, Caller, Permission
from tests.support.app import app_without_servers, client_of
from tests.support.guarded import AUTHENTICATOR, ISSUER_OF_ALL, HeaderDoor, OpenDoor

STATIC = Path(console.__file__).parent / "static"
TEMPLATES = Path(console.__file__).parent / "templates"
SAME = {"sec-fetch-site": "same-origin"}


@pytest.fixture
async def app() -> AsyncIterator[FastAPI]:
    async with app_without_servers(authenticator=AUTHENTICATOR) as app:
        add_console(app, HeaderDoor())
        yield app


async def open_screen(
    http: httpx.AsyncClient, screen: Screen, permissions: Collection[str], **headers: str
) -> httpx.Response:
    token = ISSUER_OF_ALL.token(sorted(permissions))
    path = "/console" + re.sub(r"{name}|{\w+(:path)?}", _sample, screen.path)
    return await http.request(screen.method, path, headers={"x-credential": token, **SAME, **headers})


def _sample(parameter: re.Match[str]) -> str:
    return {"{name}": "OrderReviewRequest", "{list}": "queue"}.get(parameter[0], "1")


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: f"{screen.method} {screen.path}")
async def test_screens_require_their_declared_permissions(app: FastAPI, screen: Screen) -> None:
    needed = {each.value for each in screen.permissions}
    assert needed
    async with client_of(app) as http:
        for missing in needed:
            refused = await open_screen(http, screen, {*ALL_PERMISSIONS} - {missing})
            assert refused.status_code == 403
            assert missing in refused.text
        # Permitted, but fails later because Kafka and MongoDB are unavailable.
        assert (await open_screen(http, screen, needed)).status_code not in (401, 403, 404, 405)


@pytest.mark.parametrize("screen", [each for each in SCREENS if each.method == "POST"], ids=lambda each: each.path)
@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
async def test_cross_site_actions_are_refused(app: FastAPI, screen: Screen, site: str) -> None:
    async with client_of(app) as http:
        headers = {"sec-fetch-site": site} if site else {"sec-fetch-site": ""}
        assert (await open_screen(http, screen, {*ALL_PERMISSIONS}, **headers)).status_code == 403


async def test_strangers_are_redirected_to_sign_in(app: FastAPI) -> None:
    async with client_of(app) as http:
        for headers in ({}, {"x-credential": "nonsense"}):
            response = await http.get("/console/queue?only=flagged", headers=headers)
            assert response.status_code == 303
            assert response.headers["location"] == "/console/sign-in?to=%2Fconsole%2Fqueue%3Fonly%3Dflagged"


async def test_strangers_are_rate_limited_before_reading_forms() -> None:
    options, form = {"rate_limit": RateLimit(0.0001, 2)}, {f"field-{number}": "typed by hand" for number in range(100)}
    async with (
        app_without_servers(app=options, authenticator=AUTHENTICATOR) as app,
        client_of(app) as http,
    ):
        add_console(app, HeaderDoor())
        answers = [await http.post("/console/reviews/1/reply", data=form, headers=SAME) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [401, 401, 429]
    assert ["typed by hand" in answer.text for answer in answers] == [True, True, False]
    assert int(answers[-1].headers["retry-after"]) >= 1


@pytest.mark.parametrize("permission", [Permission.READ_KEYS, Permission.READ_DEAD_LETTERS, Permission.READ_METRICS])
def test_screens_of_all_stores_are_hidden_from_bound_callers(permission: Permission) -> None:
    assert start_page(Caller("anna", frozenset({permission}), frozenset({"Electronics"}))) is None
    assert start_page(Caller("anna", frozenset({permission}), None)) is not None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/console/stores/Electronics/rules", "Stores and rules"),
        ("/console/settings", "Stores and rules"),
        ("/console/choose-store/queue", "Queue"),
        ("/console/choose-store/reviews", "Reviews"),
        ("/console/choose-store/reminders", "Reminders"),
    ],
)
def test_navigation_names_the_current_part(path: str, name: str) -> None:
    groups = visible(Caller("anna", ALL_PERMISSIONS, None), path)
    assert [each.name for group in groups for each in group if each.is_current] == [name]


async def test_health_is_marked_once_the_service_has_looked() -> None:
    """Here neither MongoDB nor Kafka answers."""
    async with app_without_servers() as app, client_of(app) as http:
        add_console(app, OpenDoor())
        before = await http.get("/console/nowhere")
        assert (await http.get("/metrics")).status_code == 200
        after = await http.get("/console/nowhere")
    assert 'class="dot' not in before.text
    assert re.search(r'Health <i class="dot" role="img"\s+aria-label="needs attention"', after.text)


async def test_refused_fragment_is_a_fragment(app: FastAPI) -> None:
    htmx = {"hx-request": "true"}
    known = {**htmx, "x-credential": ISSUER_OF_ALL.token(["metrics:read"])}
    async with client_of(app) as http:
        for headers, status, words in (
            (htmx, 401, "Sign in in another tab"),
            (known, 403, "This needs the permission"),
        ):
            response = await http.get("/console/reviews/1/context", headers=headers)
            assert response.status_code == status
            assert words in response.text
            assert not re.search("<html|<nav|autofocus", response.text)


async def test_content_security_policy(app: FastAPI) -> None:
    async with client_of(app) as http:
        page = await http.get("/console/nowhere", headers={"x-credential": ISSUER_OF_ALL.token(["metrics:read"])})
        again = await http.get("/console/nowhere", headers={"x-credential": ISSUER_OF_ALL.token(["metrics:read"])})
    assert page.status_code == 404
    policy = page.headers["content-security-policy"]
    assert "unsafe" not in policy
    nonce = re.search(r"script-src 'self' 'nonce-([^']+)'", policy)
    assert nonce
    assert nonce[1] not in again.text
    assert set(re.findall(r'nonce="([^"]+)"', page.text)) == {nonce[1]}
    for rule in ("default-src 'none'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'"):
        assert rule in policy.split("; ")
    assert "require-trusted-types-for 'script'" in policy


async def test_images_are_allowed_from_the_configured_origin() -> None:
    async with app_without_servers(authenticator=AUTHENTICATOR) as app, client_of(app) as http:
        add_console(app, HeaderDoor(), Options(images="https://images.example.com"))
        page = await http.get("/console/nowhere", headers={"x-credential": ISSUER_OF_ALL.token(["metrics:read"])})
    assert "img-src 'self' https://images.example.com" in page.headers["content-security-policy"].split("; ")


async def test_root_redirects_only_browsers(app: FastAPI) -> None:
    async with client_of(app) as http:
        assert (await http.get("/console/")).headers["location"] == "/console"
        assert (await http.get("/", headers={"accept": "text/html"})).headers["location"] == "/console"
        assert (await http.get("/", headers={"accept": "application/json"})).status_code == 404


def test_vendored_scripts_match_their_digests() -> None:
    listed = json.loads((STATIC / "vendored.json").read_text())
    assert {path.name for path in STATIC.glob("*.js")} == {*listed, "console.js"}
    for name, entry in listed.items():
        digest = base64.b64encode(hashlib.sha384((STATIC / name).read_bytes()).digest()).decode()
        assert entry["integrity"] == f"sha384-{digest}", name


def test_scripts_are_small() -> None:
    assert sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in STATIC.rglob("*.js")) <= 30_500


def test_script_knows_every_decision() -> None:
    script = (STATIC / "console/deciding.js").read_text()
    tables = re.findall("^const (?:AFTER|DOING) = .*", script, re.MULTILINE)
    after, doing = (re.findall(r'(\w+): "(.+?)"', table) for table in tables)
    assert {status: action for action, status in after} == RESTORING
    assert {action for action, _ in doing} == {action for action, _ in after}


def test_styles_set_each_property_of_a_selector_once() -> None:
    """Outside of `@media`."""
    css = re.sub(r"/\*.*?\*/", "", (STATIC / "console.css").read_text(), flags=re.DOTALL)
    css = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}", "", css)
    found = [
        (" ".join(selector.split()), name)
        for selectors, properties in re.findall(r"([^{}]+)\{([^{}]*)\}", css)
        for selector in re.split(r",(?![^(]*\))", selectors)
        for name in re.findall(r"([\w-]+)\s*:", properties)
    ]
    assert len(found) > 500
    assert [each for each, count in Counter(found).items() if count > 1] == []


def test_texts_and_breakpoints_follow_the_font_size_of_the_browser() -> None:
    """In pixels, texts would ignore it, and pages would keep columns that larger ones don't fit into."""
    for path in (*STATIC.glob("*.css"), STATIC.parents[1] / "storefront/demo_static/shop.css"):
        assert re.findall(r"font(?:-size)?:[^;}]*\dpx|@media[^{]*px", path.read_text()) == [], path


async def test_static_files_are_cached_by_version(app: FastAPI) -> None:
    """Browsers cache only files of the page's version."""
    own, other = static_files.VERSION, "0" * 12
    async with client_of(app) as http:
        page = await http.get("/console/nowhere", headers={"x-credential": ISSUER_OF_ALL.token(["metrics:read"])})
        named = re.findall(r'(?:src|href)="(/console/static/[^"#]+)', page.text)
        assert {Path(each).name for each in named} >= {"console.js", "row.js", "tokens.css", "htmx.min.js"}
        assert {each.split("/")[3] for each in named} == {own}
        for path in (path for path in STATIC.rglob("*.*") if path.suffix in (".js", ".css", ".svg")):
            name = path.relative_to(STATIC).as_posix()
            kept, passing = [await http.get(f"/console/static/{version}/{name}") for version in (own, other)]
            assert kept.content == passing.content == path.read_bytes()
            assert kept.headers["cache-control"] == "public, max-age=31536000, immutable", path
            assert passing.headers["cache-control"] == "no-store", path
            is_script = kept.headers["content-type"].startswith("text/javascript")
            assert is_script == (path.suffix == ".js"), path
        for version in (own, other, "x"):
            assert (await http.get(f"/console/static/{version}/nothing.js")).status_code == 404


def test_every_script_module_exists_and_is_imported() -> None:
    modules = {path.relative_to(STATIC).as_posix(): path for path in (STATIC / "console").iterdir()}
    named = set()
    for path in (STATIC / "console.js", *modules.values()):
        for name in re.findall(r'^import .* from "\./(.*)";$', path.read_text(), re.MULTILINE):
            named.add((path.parent / name).relative_to(STATIC).as_posix())
    assert named == set(modules)


@pytest.mark.parametrize("template", sorted(TEMPLATES.glob("*.html")), ids=lambda path: path.name)
def test_templates_have_no_inline_code_and_keys_in_forms(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"\sstyle=|\son\w+=|hx-on|\|\s*safe|<style", text)
    for script in re.findall(r"<script[^>]*>", text):
        assert "src=" in script
    for element in re.findall(r"<[^>]*\shx-(?:get|post|trigger)=[^>]*>", text):
        assert 'hx-nonce="{{ nonce }}"' in element
    for form in re.findall(r'<form[^>]*method="post"[^>]*>.*?</form>', text, re.S):
        assert re.search(r"key\((new|form)_key\)", form) or "/console/sign-" in form, form[:200]


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-11-22T11:59:30Z", "now"),
        ("2026-11-22T11:48:00Z", "12 min"),
        ("2026-11-22T08:00:00Z", "4 h"),
        ("2026-11-21T07:59:00Z", "1 d 4 h"),
        ("2026-11-22T12:00:05Z", "now"),
    ],
)
def test_age_format(at: str, shown: str) -> None:
    from datetime import UTC, datetime

    assert age(at, datetime(2026, 11, 22, 12, tzinfo=UTC)) == shown


def test_moment_and_address_format() -> None:
    assert moment("2026-11-02T11:02:33.433Z") == "2 Nov 2026, 11:02"
    assert address("/x", {"a": "1", "done": "saved", "b": ""}, c="&", a=None) == "/x?c=%26"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A", "A"),
        (" 1 ", " 1 "),
        ("👍", "👍"),
        ("", ""),
        (None, ""),
        (" \t", ""),
        ("\u200b\u202e", ""),
        ("\u3164 \u2800", ""),
    ],
)
def test_invisible_titles_are_empty(text: str | None, shown: str) -> None:
    assert legible(text) == shown


@pytest.mark.parametrize("text", ["1e999", "nan", "-inf"])
def test_non_finite_numbers_stay_text(text: str) -> None:
    assert (number(text), number("1.5"), number("2")) == (text, 1.5, 2)


@pytest.mark.parametrize(
    "text",
    [
        *("4_8", "1_0.5", "\u0663", "\uff14", "\u0663.5", "1.\u0665", "0x10", "1 0", "1,5", ".", "+", "1e", "--1"),
        pytest.param(f"{'1' * 500_000}x", id="endless to read in quadratic time"),
    ],
)
def test_only_plain_ascii_numbers_are_numbers(text: str) -> None:
    """Others stay text, which the API refuses: Python itself reads `4_8` as 48."""
    assert number(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), (" ", None), (" 4 ", 4), ("-4", -4), ("+4", 4), ("007", 7), (".5", 0.5), ("5.", 5.0), ("1e3", 1e3)],
)
def test_numbers_as_people_type_them(text: str, value: float | None) -> None:
    assert (found := number(text)) == value
    assert type(found) is type(value)


async def test_very_long_number_in_a_query_is_refused() -> None:
    async with app_without_servers() as app, client_of(app) as http:
        add_console(app, OpenDoor())
        assert (await http.get("/console/audit", params={"after": "9" * 5_000})).status_code == 422


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (AutoReconnect("gone"), "The database can&#39;t be reached"),
        (StalledError(), "Other requests use the memory"),
    ],
)
@pytest.mark.parametrize(("path", "asked"), [("reviews", "customerReviews/search"), ("audit/export", "audit/export")])
async def test_page_whose_content_is_cut_off_says_why(path: str, asked: str, error: Exception, words: str) -> None:
    """An export, too: half a file would look like a whole one."""

    async def answer(_: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[bytes]:
            yield b'{"results":['
            raise error

        return StreamingResponse(parts(), media_type="application/json")

    async with app_without_servers() as app:
        add_console(app, OpenDoor())
        app.router.routes.insert(0, Route(f"/api/{asked}", answer, methods=["GET", "POST"]))
        async with client_of(app) as http:
            page = await http.get(f"/console/{path}")
    assert (page.status_code, words in page.text) == (503, True)
