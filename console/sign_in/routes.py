"""Sign-in and sign-out, by the way in that the service has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_urlsafe
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from api.auth.permissions import address_of, forbidden, identified
from api.services import Services
from api.web.problems import ProblemError, ProblemKind, unavailable
from console.sign_in.attempts import ATTEMPT, Attempt, Provider, opened_attempt
from console.sign_in.cookies import SESSION, TooLargeError, opened_session, sealed_session
from console.sign_in.ended import EndedSessions
from console.sign_in.guard import HOME, SIGN_IN, SIGN_OUT, is_confidential, is_own_request, way_back
from console.sign_in.keys import CookieKeys
from console.sign_in.pages import SignInPage
from domain.sessions import Session
from messaging.kafka.connection import BrokerAwayError

START: Final = f"{SIGN_IN}/start"
CALLBACK: Final = f"{SIGN_IN}/callback"

_ID_BYTES: Final = 16
_EAVESDROPPED: Final = "Sign in over https: others on the network could read your credential here."
_FOREIGN: Final = "The request didn't come from this page. Send the form again, with a browser of the last years."
_NO_CLIENT: Final = "Nobody can sign in here: PLAUDIT_CONSOLE__OIDC__CLIENT_ID isn't set."
_TOO_LARGE: Final = (
    "You were let in, but your token is too large for a cookie of 4,096 bytes. Whoever runs the sign-in page can leave "
    "claims out of it."
)
_LATE: Final = "The sign-in took longer than 10 minutes, or was begun in another browser. Sign in again."
_OPENS_NOTHING: Final = "You signed in, but that opens nothing here."


class SignIn:
    """Knows the visitors of the console by their sealed cookies, and gives these out.

    `provider` is for the mode `jwt`. In the mode `none` nobody signs in: there are no sessions.
    """

    def __init__(self, services: Services, keys: CookieKeys, provider: Provider | None = None) -> None:
        self._keys = keys
        self._ended = EndedSessions(services)
        self._provider = provider
        self.mode = services.authenticator.mode
        self.routes: Sequence[Route] = (
            Route(SIGN_IN, self._show, methods=["GET"]),
            Route(SIGN_IN, self._enter_key, methods=["POST"]),
            Route(START, self._start, methods=["GET"]),
            Route(CALLBACK, self._come_back, methods=["GET"]),
            Route(SIGN_OUT, self._sign_out, methods=["POST"]),
        )

    @property
    def is_needed(self) -> bool:
        """False where everybody is let in."""
        return self.mode != "none"

    async def session(self, request: Request) -> Session | None:
        """The session of a visitor; None where there is none, it has ended, or its time has passed.

        Its credential may have expired or been revoked since: the API tells that. Raises what MongoDB's being away
        raises.
        """
        value = request.cookies.get(SESSION.name)
        if not value or not self.is_needed:
            return None
        session = opened_session(value, await self._keys.all(), datetime.now(UTC))
        return None if session is None or await self._ended.contains(session.id) else session

    def ask(self, request: Request) -> Response:
        """Send a visitor to sign in, and back to what was asked for."""
        query = f"?{request.url.query}" if request.url.query else ""
        back = way_back(request.url.path + query if request.method == "GET" else None)
        return RedirectResponse(f"{SIGN_IN}?next={quote(back, safe='')}", 303)

    async def _show(self, request: Request) -> Response:
        if not self.is_needed:
            return RedirectResponse(HOME, 303)
        back = request.query_params.get("next")
        try:
            self._check(request)
        except ProblemError as problem:
            return self._told(problem, back, is_open=False)
        notice = "You are signed out." if "signed-out" in request.query_params else ""
        return SignInPage(self.mode, way_back(back), notice=notice).answer()

    async def _enter_key(self, request: Request) -> Response:
        if self.mode != "api_key":
            return RedirectResponse(SIGN_IN, 303)
        back = None
        try:
            self._check(request)
            form = await request.form(max_files=0, max_fields=10)
            key, back = (str(form.get(name, "")).strip() for name in ("key", "next"))
            if not key:
                raise ProblemError(ProblemKind.UNAUTHENTICATED, "Paste an API key.")
            return await self._let_in(request, key, way_back(back))
        except ProblemError as problem:
            return self._told(problem, back)

    async def _start(self, request: Request) -> Response:
        if self._provider is None:
            return RedirectResponse(SIGN_IN, 303)
        back = request.query_params.get("next")
        try:
            self._check(request)
            request.app.state.rate_limit.take(address_of(request))
            attempt = Attempt.begin(way_back(back), datetime.now(UTC))
            response = RedirectResponse(await self._provider.address(attempt, _callback(request)), 303)
            ATTEMPT.put(response, attempt.sealed(await self._keys.all()))
        except ProblemError as problem:
            return self._told(problem, back)
        return response

    async def _come_back(self, request: Request) -> Response:
        if self._provider is None:
            return RedirectResponse(SIGN_IN, 303)
        back = None
        try:
            keys = await self._keys.all()
            attempt = opened_attempt(request.cookies.get(ATTEMPT.name, ""), keys, datetime.now(UTC))
            if attempt is None:
                raise forbidden(_LATE)
            back = attempt.way_back
            token = await self._provider.access_token(attempt, request.query_params, _callback(request))
            response = await self._let_in(request, token, back)
        except ProblemError as problem:
            response = self._told(problem, back)
        ATTEMPT.remove(response)
        return response

    async def _sign_out(self, request: Request) -> Response:
        if not self.is_needed:
            return RedirectResponse(HOME, 303)
        try:
            self._check(request)
            if session := await self.session(request):
                await self._ended.end(session.id)
        except ProblemError as problem:
            return self._told(problem, None, is_open=False)
        except BrokerAwayError:
            return self._told(unavailable("You are still signed in, because the message broker"), None, is_open=False)
        response = RedirectResponse(f"{SIGN_IN}?signed-out", 303)
        SESSION.remove(response)
        return response

    async def _let_in(self, request: Request, credential: str, back: str) -> Response:
        """Give out a new session for a credential that the API accepts. Raises ProblemError."""
        caller = await identified(request, credential)
        session = Session(token_urlsafe(_ID_BYTES), credential, caller.subject, datetime.now(UTC))
        response = RedirectResponse(back, 303)
        try:
            SESSION.put(response, sealed_session(session, await self._keys.all()))
        except TooLargeError as error:
            raise ProblemError(ProblemKind.TOO_LARGE, _TOO_LARGE) from error
        return response

    def _check(self, request: Request) -> None:
        """Raises ProblemError for a request by which nobody may sign in or out."""
        if not is_confidential(request.url.scheme, request.url.hostname or ""):
            raise forbidden(_EAVESDROPPED)
        if not is_own_request(request.method, request.headers.get("sec-fetch-site")):
            raise forbidden(_FOREIGN)
        if self.mode == "jwt" and self._provider is None:
            raise ProblemError(ProblemKind.UNAVAILABLE, _NO_CLIENT)

    def _told(self, problem: ProblemError, back: str | None, *, is_open: bool = True) -> Response:
        """The page that tells a problem, and where it may be tried again."""
        refused_by_us = self.mode == "jwt" and problem.kind is ProblemKind.UNAUTHENTICATED
        error = f"{_OPENS_NOTHING} {problem.detail}" if refused_by_us else problem.detail
        page = SignInPage(self.mode, way_back(back), error=error, is_open=is_open)
        retry = {name: value for name, value in (problem.headers or {}).items() if name == "Retry-After"}
        return page.answer(problem.kind.status, retry)


def _callback(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{CALLBACK}"
