"""Sign-in and sign-out in the service's authentication mode."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from secrets import token_urlsafe
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from api.auth.permissions import client_address, forbidden, identified
from api.services import Services
from api.web.budgets import NoRoomError
from api.web.concurrency import outside
from api.web.forms import read_form
from api.web.limits import RateLimit, Slots
from api.web.problems import ProblemError, ProblemKind, unavailable
from api.web.routes import PageRoute
from console.access import SIGN_IN, ConsoleAccess, in_time
from console.api_client import ApiClient, Refused, refusal_by
from console.sign_in.attempts import ATTEMPT, Attempt, Provider, opened_attempt
from console.sign_in.cookies import SESSION, TooLargeError, opened_session, sealed_session
from console.sign_in.ended import EndedSessions
from console.sign_in.guard import HOME, SIGN_OUT, is_own_request, way_back
from console.sign_in.keys import CookieKeys
from console.undo import withdraw
from console.visits import Visit
from domain.origins import keeps_cookies
from domain.permissions import STRANGER
from domain.sessions import Session
from messaging.kafka.connection import BrokerAwayError
from storage.database import is_database_away

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

START: Final = f"{SIGN_IN}/start"
CALLBACK: Final = f"{SIGN_IN}/callback"

_ID_BYTES: Final = 16
_MOST_FORM_BYTES: Final = 64 * 1024
MOST_EXCHANGES: Final = 100
"""Maximum number of codes about which a process asks the provider at a time."""

MOST_EXCHANGES_PER_CLIENT: Final = 20
_FAILURES: Final = 30
"""Maximum number of codes from one address that the provider refuses in a minute: each costs a request to it."""

_DATABASE: Final = "The database"
_EAVESDROPPED: Final = "Sign in over https: others on the network could read your credential here."
_FOREIGN: Final = "The request didn't come from this page. Send the form again, in a current browser."
_OPENS_NOTHING: Final = "You are signed in, but have no access to any page here."
_NO_CLIENT: Final = "Nobody can sign in here: PLAUDIT_CONSOLE__OIDC__CLIENT_ID isn't set."
_TOO_LARGE: Final = (
    "You signed in, but your token is too large for a cookie of 4,096 bytes. The administrator of the "
    "sign-in page can remove claims from it."
)
_STILL_IN: Final = "You are still signed in, because the message broker"
_LATE: Final = "The sign-in took longer than 10 minutes, or was started in another browser. Sign in again."


class SignIn(ConsoleAccess):
    """Identifies the visitors of the console by sealed cookies, and issues these.

    `provider` is for the mode `jwt`. In the mode `none` nobody signs in: there are no sessions.
    """

    def __init__(self, services: Services, keys: CookieKeys, provider: Provider | None = None) -> None:
        self._keys = keys
        self._ended = EndedSessions(services)
        self._provider = provider
        self._failures = RateLimit(_FAILURES / 60, _FAILURES, f"{_FAILURES} failed sign-ins a minute")
        self._exchanges = Slots(most=MOST_EXCHANGES, most_per_client=MOST_EXCHANGES_PER_CLIENT)
        self._mode = services.authenticator.mode
        self.is_open = self._mode == "none"
        self.routes: Sequence[BaseRoute] = (
            PageRoute(SIGN_IN, self._limited(self._show), methods=["GET"]),
            PageRoute(SIGN_IN, self._limited(self._enter_key), methods=["POST"]),
            PageRoute(START, self._limited(self._start), methods=["GET"]),
            PageRoute(CALLBACK, self._limited(self._handle_callback), methods=["GET"]),
            PageRoute(SIGN_OUT, self._limited(self._sign_out), methods=["POST"]),
        )

    async def credential(self, request: Request) -> str | None:
        """The credential of a visitor's session; None without one. Raises Refused: that can't be determined now.

        The credential may have expired or been revoked since: the API checks that.
        """
        try:
            session = await self.session(request)
        except ProblemError as problem:
            raise refusal_by(problem) from problem
        except Exception as error:
            if not is_database_away(error):
                raise
            raise refusal_by(unavailable(_DATABASE)) from error
        return session.credential if session else None

    async def session(self, request: Request) -> Session | None:
        """The session of a visitor; None if there is none, or it has ended or expired.

        Raises ProblemError, or PyMongo's error if MongoDB is unavailable: in doubt nobody is let in.
        """
        value = request.cookies.get(SESSION.name)
        if not value or self.is_open:
            return None
        session = opened_session(value, await self._keys.all(), datetime.now(UTC))
        return None if session is None or await self._ended.contains(session.id) else session

    def _limited(self, handler: Handler) -> Handler:
        """The handler, rate-limited by address, as the sender of a request isn't identified yet."""

        async def serve(request: Request) -> Response:
            try:
                request.app.state.rate_limit.take(client_address(request))
            except ProblemError as problem:
                to, offers = request.query_params.get("to"), request.url.path != SIGN_OUT
                return self._page(request, to, problem, offers=offers)
            return await handler(request)

        return serve

    async def _show(self, request: Request) -> Response:
        if self.is_open:
            return RedirectResponse(HOME, 303)
        back = request.query_params.get("to")
        try:
            self._check(request)
            if self._mode == "jwt" and self._provider is None:
                raise ProblemError(ProblemKind.UNAVAILABLE, _NO_CLIENT)
        except ProblemError as problem:
            return self._page(request, back, problem, offers=False)
        return self._page(request, back)

    async def _enter_key(self, request: Request) -> Response:
        if self._mode != "api_key":
            return RedirectResponse(SIGN_IN, 303)
        back = request.query_params.get("to")
        try:
            self._check(request)
            form = dict(await read_form(request, _MOST_FORM_BYTES, most_fields=10))
            if not (key := form.get("key", "").strip()):
                raise ProblemError(ProblemKind.UNAUTHENTICATED, "Paste an API key.")
            return await self._let_in(request, key, way_back(back))
        except ProblemError as problem:
            return self._page(request, back, problem)

    async def _start(self, request: Request) -> Response:
        if self._provider is None:
            return RedirectResponse(SIGN_IN, 303)
        back = request.query_params.get("to")
        try:
            self._check(request)
            attempt = Attempt.begin(way_back(back), datetime.now(UTC))
            with outside(request.scope):
                address = await self._provider.address(attempt, _callback(request))
            response = RedirectResponse(address, 303)
            ATTEMPT.put(response, attempt.sealed(await _in_time(self._keys.all())))
        except ProblemError as problem:
            return self._page(request, back, problem)
        return response

    async def _handle_callback(self, request: Request) -> Response:
        if self._provider is None:
            return RedirectResponse(SIGN_IN, 303)
        back, is_over = None, False
        try:
            keys = await _in_time(self._keys.all())
            attempt = opened_attempt(request.cookies.get(ATTEMPT.name, ""), keys, datetime.now(UTC))
            if attempt is None:
                raise forbidden(_LATE)
            back = attempt.way_back
            code = self._provider.code(attempt, request.query_params)
            with self._exchange(client_address(request)), outside(request.scope):
                is_over = True
                token = await self._provider.access_token(attempt, code, _callback(request))
            response = await self._let_in(request, token, back)
        except ProblemError as problem:
            response = self._page(request, back, problem)
            is_over = is_over and problem.kind is not ProblemKind.UNAVAILABLE  # reloading may do
        # Until the provider has had the code, another tab may still finish the sign-in, or a reload this one.
        if is_over:
            ATTEMPT.remove(response)
        return response

    @contextmanager
    def _exchange(self, address: str) -> Iterator[None]:
        """Ask the provider about a code in this block; what it refuses is counted. Raises ProblemError: too many are
        asking (503), or too many codes from this address were refused (429)."""
        with self._exchanges.take(address) as has_slot:
            if not has_slot:
                raise NoRoomError("Too many visitors are signing in.")
            self._failures.take(address)  # counted beforehand, as others may be sent meanwhile
            try:
                yield
            except ProblemError as problem:
                if problem.kind is ProblemKind.UNAVAILABLE:
                    self._failures.give_back(address)
                raise
        self._failures.give_back(address)

    async def _sign_out(self, request: Request) -> Response:
        if self.is_open:
            return RedirectResponse(HOME, 303)
        try:
            self._check(request)
            if session := await _in_time(self.session(request)):
                await self._ended.end(session.id)
        except ProblemError as problem:
            return self._page(request, None, problem, offers=False)
        except BrokerAwayError:
            return self._page(request, None, unavailable(_STILL_IN), offers=False)
        response = RedirectResponse(f"{SIGN_IN}?done=signed-out", 303)
        SESSION.remove(response)
        withdraw(response)
        return response

    async def _let_in(self, request: Request, credential: str, back: str) -> Response:
        """Issue a session for a credential that the API accepts. Raises ProblemError."""
        # From here on, its credential is counted instead.
        request.app.state.rate_limit.give_back(client_address(request))
        caller = await _in_time(identified(request, credential))
        session = Session(token_urlsafe(_ID_BYTES), credential, caller.subject, datetime.now(UTC))
        response = RedirectResponse(back, 303)
        withdraw(response)  # another user of this browser may have decided before
        try:
            SESSION.put(response, sealed_session(session, await _in_time(self._keys.all())))
        except TooLargeError as error:
            raise ProblemError(ProblemKind.TOO_LARGE, _TOO_LARGE) from error
        return response

    def _page(
        self, request: Request, back: str | None, problem: ProblemError | None = None, *, offers: bool = True
    ) -> Response:
        """The sign-in page; `back` is the page to return to. A problem sets the status and the error message. `offers`
        is False for a refused sign-out, and if trying again is of no use."""
        visit = Visit(request, ApiClient(request, None, ("", 0)), STRANGER, is_open=False)
        error = problem.detail if problem else ""
        if problem and problem.kind is ProblemKind.UNAUTHENTICATED and self._mode == "jwt":
            error = f"{_OPENS_NOTHING} {error}"
        refused = refusal_by(problem) if problem else None
        to = way_back(back)
        return visit.page("sign_in.html", refused=refused, mode=self._mode, to=to, error=error, offers=offers)

    def _check(self, request: Request) -> None:
        """Raises ProblemError if this request comes from elsewhere, or over a network that others can read."""
        if not keeps_cookies(request.url.scheme, request.url.hostname or ""):
            raise forbidden(_EAVESDROPPED)
        if not is_own_request(request.method, request.headers.get("sec-fetch-site")):
            raise forbidden(_FOREIGN)


async def _in_time(step: Awaitable[T]) -> T:
    """The result of a step. Raises its errors, or ProblemError: MongoDB is unavailable or hangs."""
    try:
        return await in_time(step)
    except Exception as error:
        if not (isinstance(error, Refused) or is_database_away(error)):
            raise
        raise unavailable(_DATABASE) from error


def _callback(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{CALLBACK}"
