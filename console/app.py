"""The console's routes in the facade's application."""

from collections.abc import Sequence
from functools import partial
from typing import Final
from urllib.parse import urlencode

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from api.auth.permissions import client_address, identified
from api.web.forms import MAX_FORM_BYTES
from api.web.hygiene import SAFE_METHODS
from api.web.middleware import problem_of
from api.web.problems import ProblemError
from api.web.routes import PageRoute
from console import (
    audit,
    bulk,
    dead_letters,
    decisions,
    entity_types,
    health,
    keys,
    mail_templates,
    moderation_rules,
    news,
    objects,
    orders,
    queue,
    queue_missed,
    reminders,
    returns,
    reviews,
    settings,
    static_files,
    store_choice,
    stores,
)
from console.access import SIGN_IN, ConsoleAccess, in_time
from console.api_client import ApiClient, Refused, refusal_by
from console.fields import Form
from console.navigation import start_page
from console.queue_news import QueueNews
from console.screens import Screen
from console.sign_in.guard import HOME, is_own_request
from console.templating import PAGES
from console.visits import Options, Visit
from domain.permissions import STRANGER, Caller

SCREENS: Final[Sequence[Screen]] = (
    *queue.screens,
    *queue_missed.screens,
    *bulk.screens,
    *news.screens,
    *decisions.screens,
    *reviews.screens,
    *objects.screens,
    *returns.screens,
    *orders.screens,
    *reminders.screens,
    *store_choice.screens,
    *moderation_rules.screens,
    *stores.screens,
    *settings.screens,
    *mail_templates.screens,
    *entity_types.screens,
    *audit.screens,
    *dead_letters.screens,
    *health.screens,
    *keys.screens,
)
_KEPT_FORM_BYTES: Final = 256 * 1024
"""Maximum bytes of a form that is returned to a visitor who isn't signed in, as far as is known, lacks a permission, or
sends too many requests: more than the longest review or reply."""

_SIGNED_OUT: Final = {
    "detail": "You are signed out. Sign in in another tab, then send this again: nothing that you typed is lost."
}
_FOREIGN: Final = {
    "type": "/problems/cross-site",
    "title": "Not allowed",
    "detail": "This request was not sent by a page of the console. Open the page there, and try again.",
}
_NO_SUCH_PAGE: Final = {"type": "/problems/not-found", "title": "Not found", "detail": "There is no such page."}


def add_console(
    app: FastAPI,
    access: ConsoleAccess,
    options: Options | None = None,
    queue_news: QueueNews | None = None,
) -> None:
    """Add the console to the facade's application. Without `queue_news`, open pages receive no news."""
    console = _Console(access, options or Options(), queue_news)
    app.router.routes.extend(console.routes())


class _Console:
    """Serves the screens, after checking the visitor's session and permissions."""

    def __init__(self, access: ConsoleAccess, options: Options, queue_news: QueueNews | None) -> None:
        self._access = access
        self._options = options
        self._queue_news = queue_news

    def routes(self) -> list[BaseRoute]:
        """All routes; the last one answers unknown paths with 404."""
        return [
            PageRoute("/", _front_page),
            PageRoute("/favicon.ico", _icon),
            static_files.route(),
            *self._access.routes,
            PageRoute("/console", partial(self._serve, Screen("GET", "", (), _start))),
            PageRoute("/console/", _home),
            *(PageRoute(f"/console{each.path}", partial(self._serve, each), methods=[each.method]) for each in SCREENS),
            PageRoute("/console/{rest:path}", partial(self._serve, Screen("GET", "", (), _unknown_page))),
        ]

    async def _serve(self, screen: Screen, request: Request) -> Response:
        client = (request.client.host, request.client.port) if request.client else ("", 0)
        try:
            credential = await in_time(self._access.credential(request))
            if credential is None and not self._access.is_open:
                raise Refused(401, _SIGNED_OUT)
        except Refused as refused:
            return await self._turn_away(self._visit(request, ApiClient(request, None, client), STRANGER), refused)
        async with ApiClient(request, credential, client) as facade:
            visit = self._visit(request, facade, STRANGER)
            try:
                visit = self._visit(request, facade, await in_time(_caller(request, credential)))
                self._check(screen, visit)
                return await screen.handler(visit)
            except Refused as refused:
                return await self._refusal(visit, refused)
            except Exception as error:
                return await self._refusal(visit, refusal_by(problem_of(request.scope, error)))

    async def _turn_away(self, visit: Visit, refused: Refused) -> Response:
        """The page for a visitor without a valid session. These are rate-limited by address."""
        try:
            visit.request.app.state.rate_limit.take(client_address(visit.request))
        except ProblemError as problem:
            return visit.problem(refusal_by(problem))
        return await self._refusal(visit, refused, _KEPT_FORM_BYTES)

    async def _refusal(self, visit: Visit, refused: Refused, most_bytes: int = MAX_FORM_BYTES) -> Response:
        """The page for a refused request. A form of at most this size that can be sent again keeps its content: nothing
        is typed twice."""
        if refused.status == 401:
            kept = await self._form_to_keep(visit, _KEPT_FORM_BYTES)
            return _to_sign_in(visit) if kept is None else visit.problem(Refused(401, _SIGNED_OUT), kept=kept)
        # A permission may be given back, and its page tells whom to ask.
        is_temporary = refused.status in (403, 429) or refused.status >= 500
        most_bytes = _KEPT_FORM_BYTES if refused.status in (403, 429) else most_bytes
        return visit.problem(refused, kept=await self._form_to_keep(visit, most_bytes) if is_temporary else None)

    async def _form_to_keep(self, visit: Visit, most_bytes: int) -> Form | None:
        """The form sent by one of our pages; None if there is none, it has too many bytes, or a script sent it."""
        request = visit.request
        site = request.headers.get("sec-fetch-site")
        # Shown again on our page, another site's form would pass as ours with the next click.
        is_ours = self._access.is_open or is_own_request(request.method, site)
        if request.method in SAFE_METHODS or not is_ours or visit.is_fragment or visit.wants_json:
            return None
        try:
            return await visit.form(most_bytes)
        except Refused:
            return None

    def _visit(self, request: Request, facade: ApiClient, caller: Caller) -> Visit:
        is_still_in = partial(self._is_still_in, request, caller)
        return Visit(request, facade, caller, self._access.is_open, self._options, self._queue_news, is_still_in)

    async def _is_still_in(self, request: Request, caller: Caller) -> bool:
        """True while the visitor's session is valid and their rights are unchanged; for long-lived responses."""
        try:
            credential = await in_time(self._access.credential(request))
            if credential is None:
                return self._access.is_open
            return await in_time(_caller(request, credential)) == caller
        except Refused:
            return False

    def _check(self, screen: Screen, visit: Visit) -> None:
        """Raises Refused if the visitor lacks a permission, or another site sent the form."""
        missing = [each.value for each in screen.permissions if not visit.caller.may(each)]
        if missing:
            raise _forbidden(f"This needs the permission {' and '.join(missing)}.")
        # Browsers attach the cookie to requests that other sites trigger, too.
        site = visit.request.headers.get("sec-fetch-site")
        if not self._access.is_open and not is_own_request(screen.method, site):
            raise Refused(403, _FOREIGN)


async def _caller(request: Request, credential: str | None) -> Caller:
    """The visitor as the API identifies them. Raises Refused."""
    try:
        return await identified(request, credential)
    except ProblemError as problem:
        raise refusal_by(problem) from problem
    except Exception as error:
        raise refusal_by(problem_of(request.scope, error)) from error


def _forbidden(detail: str) -> Refused:
    return Refused(403, {"type": "/problems/forbidden", "title": "Not allowed", "detail": detail})


def _to_sign_in(visit: Visit) -> Response:
    request = visit.request
    if visit.wants_json:
        message = "You are signed out. Sign in in another tab, then send it again."
        return JSONResponse({"message": message, "status": 401}, 401)
    if visit.is_fragment:
        return HTMLResponse(PAGES.get_template("signed_out.html").render(), 401)
    # Our pages require a session, so it has ended since. Only the sign-in page, which leads to HOME, does without one.
    was_signed_in = request.headers.get("sec-fetch-site") == "same-origin" and request.url.path != HOME
    target = {"to": visit.address} if request.method == "GET" else {}
    query = urlencode({**target, **({"done": "ended"} if was_signed_in else {})})
    return RedirectResponse(f"{SIGN_IN}?{query}" if query else SIGN_IN, 303)


async def _front_page(request: Request) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return await _home(request)


async def _home(request: Request) -> Response:
    return RedirectResponse("/console", 307)


async def _icon(request: Request) -> Response:
    return FileResponse(static_files.FOLDER / "icon.svg")


async def _start(visit: Visit) -> Response:
    path = start_page(visit.caller)
    if path is None:
        return visit.problem(_forbidden("You have none of the permissions that the console's pages need."))
    return RedirectResponse(path, 303)


async def _unknown_page(visit: Visit) -> Response:
    return visit.problem(Refused(404, _NO_SUCH_PAGE))
