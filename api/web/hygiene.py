"""Protection against attacks by way of browsers: security headers, trusted hosts, CORS; and against unreadable
paths and costly cookies."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web.problems import ProblemError, ProblemKind, problem_response

MAX_AGE_SECONDS: Final = 600
HEALTH: Final = "/health/"
"""Prefix of the paths of probes, which reveal nothing."""

STOREFRONT: Final = "/storefront/"
"""Prefix of paths that pages of other sites may write to, if a store names them: its endpoints check that
themselves."""

_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_PAGE_HEADERS: Final = (
    (b"content-security-policy", b"frame-ancestors 'none'; base-uri 'none'; object-src 'none'"),
    # With `no-referrer` a browser hides the origin of a form from us, too; over plain HTTP nothing else reveals it.
    (b"referrer-policy", b"same-origin"),
)
_OTHER_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
_HSTS: Final = b"max-age=31536000"
_BROWSER_HEADERS: Final = frozenset({b"origin", b"sec-fetch-site"})
_ESCAPE: Final = b"\\"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MISDIRECTED: Final = (
    "The service doesn't have the name in the header Host. Use one of its names, or add this one to the "
    "setting PLAUDIT_HTTP__ALLOWED_HOSTS."
)
_UNREADABLE: Final = "The path isn't UTF-8. Encode its parts as encodeURIComponent does."
_CROSS_SITE: Final = "The request comes from a page of another origin, which PLAUDIT_HTTP__CORS_ORIGINS doesn't allow."


@dataclass(frozen=True, slots=True)
class WebRules:
    """Origins that browsers may send requests from (CORS; none by default), and the host names of the service.

    None or `*` allows any host name; `*.example.com` every name directly below it. The names of this machine
    (`localhost`, loopback addresses) and the address that a request came to are always allowed.
    """

    cors_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] | None = None

    def middleware(self) -> list[Middleware]:
        """The middleware that applies these rules, outermost first."""
        found = [Middleware(Hygiene, rules=self)]
        if self.cors_origins:
            found.append(
                Middleware(
                    _CrossOrigin,
                    allow_origins=self.cors_origins,
                    allow_methods=["GET", "POST", "PUT", "DELETE"],
                    allow_headers=["Authorization", "Content-Type", "Idempotency-Key", "Prefer", "X-API-Key"],
                    expose_headers=["Plaudit-Ignored", "Preference-Applied", "Retry-After", "WWW-Authenticate"],
                    max_age=MAX_AGE_SECONDS,
                )
            )
        return found


class _CrossOrigin(CORSMiddleware):
    """Lets pages of configured origins read responses, except those of the storefront, where each store names its
    own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        is_of_store = scope["type"] == "http" and scope["path"].startswith(STOREFRONT)
        serve = self.app if is_of_store else super().__call__
        await serve(scope, receive, send)


class HostNames:
    """The host names of the service, by these rules."""

    def __init__(self, rules: WebRules) -> None:
        names = ["*"] if rules.allowed_hosts is None else rules.allowed_hosts
        self._names = frozenset(name.lower() for name in names)
        self._are_any = "*" in self._names

    def have_host_of(self, scope: Scope) -> bool:
        """True if the header Host of a request is one of them. Probes of HTTP/1.0 may lack it, browsers never do."""
        if self._are_any:
            return True
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1:
            return not hosts and scope["path"].startswith(HEALTH)
        try:
            name = urlsplit(f"//{hosts[0]}").hostname or ""
        except ValueError:
            return False
        _, dot, parent = name.partition(".")
        return name in self._names or bool(dot and f"*.{parent}" in self._names) or _is_own(name, scope.get("server"))


def with_headers(scope: Scope, send: Send) -> Send:
    """`send` with the headers that restrict browsers, for the response to this request."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"] = list(message["headers"])
            own = dict(headers)
            is_page = own.get(b"content-type", b"").startswith(b"text/html")
            wanted = [*_HEADERS, *(_PAGE_HEADERS if is_page else _OTHER_HEADERS)]
            if scope["scheme"] == "https":
                wanted.append((b"strict-transport-security", _HSTS))
            headers += [header for header in wanted if header[0] not in own]
        await send(message)

    return send_with_headers


class Hygiene:
    """Adds headers that restrict browsers; a response keeps those that it has itself.

    Refuses paths that aren't UTF-8: decoded, many of them would be the same.

    Drops cookies with escapes, which none of ours has: Python before 3.11.10 and 3.12.6 takes quadratic time to decode
    them (CVE-2024-7592), two seconds for 16 KiB, and FastAPI decodes them in each request.

    Refuses host names that aren't the service's: a page whose own name was made to resolve to this service has the same
    origin for the browser (DNS rebinding), and only the name reveals that. Refuses changes that a browser requests for
    a page of another site, also without authentication. Browsers report that in `Sec-Fetch-Site`, older ones in
    `Origin`; other clients send neither.
    """

    def __init__(self, app: ASGIApp, rules: WebRules) -> None:
        self._app = app
        self._origins = frozenset(rules.cors_origins)
        self._names = HostNames(rules)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        _drop_escaped_cookies(scope)
        app = self._app
        if not self._names.have_host_of(scope):
            app = problem_response(scope, ProblemError(ProblemKind.MISDIRECTED, _MISDIRECTED))
        elif _is_change(scope) and self._is_cross_site(scope):
            app = problem_response(scope, ProblemError(ProblemKind.FORBIDDEN, _CROSS_SITE))
        elif not _is_utf_8(scope):
            app = problem_response(scope, ProblemError(ProblemKind.MALFORMED_PATH, _UNREADABLE))
        await app(scope, receive, with_headers(scope, send))

    def _is_cross_site(self, scope: Scope) -> bool:
        # Few requests have one of these headers.
        if not any(name in _BROWSER_HEADERS for name, _ in scope["headers"]):
            return False
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and (origin in self._origins or "*" in self._origins):
            return False
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site not in ("same-origin", "none")
        return origin is not None and authority(origin) != headers.get("host", "").lower()


def _drop_escaped_cookies(scope: Scope) -> None:
    # Few requests have one. The scope isn't copied, as outer layers read the route from it.
    if any(name == b"cookie" and _ESCAPE in value for name, value in scope["headers"]):
        scope["headers"] = [
            (name, _without_escapes(value) if name == b"cookie" else value) for name, value in scope["headers"]
        ]


def _without_escapes(cookies: bytes) -> bytes:
    return b";".join(cookie for cookie in cookies.split(b";") if _ESCAPE not in cookie)


def _is_utf_8(scope: Scope) -> bool:
    raw: bytes | None = scope.get("raw_path")
    # Nearly all requests end here.
    if not raw or b"%" not in raw:
        return True
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_change(scope: Scope) -> bool:
    return scope["method"] not in SAFE_METHODS and not scope["path"].startswith(STOREFRONT)


def _is_own(name: str, server: tuple[str, int | None] | None) -> bool:
    """True for a loopback name of this machine, and for the address that the connection was made to."""
    address = _address(name)
    if address is None:
        return name == "localhost"
    return address.is_loopback or (server is not None and address == _address(server[0]))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def authority(origin: str) -> str | None:
    """Host and port of an origin; None if it can't be parsed."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
