"""A visitor's request: the caller, the submitted form, and the pages that answer it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from api.web.encoded_slashes import path_in_addresses
from api.web.forms import MAX_FORM_BYTES, read_form
from api.web.problems import ProblemError
from console.api_client import ApiClient, Refused, refusal_by, segment
from console.fields import Form
from console.navigation import is_service_well, visible
from console.queue_news import QueueNews
from console.templating import PAGES
from domain.permissions import Caller, Permission

_MAX_FIELDS: Final = 2_000
DONE: Final = {
    "approved": "Approved.",
    "rejected": "Rejected.",
    "new": "The review waits for a decision again.",
    "deleted": "Deleted permanently.",
    "saved": "Saved.",
    "replied": "The reply is saved.",
    "removed": "Removed.",
    "created": "Created.",
    "hidden": "The image is hidden.",
    "shown": "The image is shown.",
    "recounted": "The recount is under way. The ratings follow in a moment.",
    "replayed": "Replayed.",
    "accepted": "Accepted. It takes effect in a moment.",
    "signed-out": "You are signed out.",
    "ended": "Your session has ended. Sign in to continue where you were.",
}
"""Confirmations of finished actions, by the value of `done` in the address of the next page."""


FRAME_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'; "
    "sandbox"
)
"""Content security policy of a rendered mail, or of the error in its place: it runs, loads and sends nothing, and its
origin is opaque. Inline styles are allowed, as mails contain theirs."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the console."""

    images: str = ""
    """Origins of external images, separated by spaces."""

    target: timedelta = timedelta(hours=24)
    """Longest time that a review should wait for a decision."""


@dataclass
class Visit:
    """A request. `caller` has the screen's permissions; `is_still_in` checks that again during a long response."""

    request: Request
    facade: ApiClient
    caller: Caller
    is_open: bool
    options: Options = Options()
    queue_news: QueueNews | None = None
    is_still_in: Callable[[], Awaitable[bool]] | None = None
    nonce: str = field(default_factory=lambda: token_urlsafe(16))
    _form: Form | Refused | None = None

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters that aren't empty."""
        return {name: value for name, value in self.request.query_params.items() if value}

    @property
    def path(self) -> Mapping[str, str]:
        """The path parameters."""
        return self.request.path_params

    @property
    def address(self) -> str:
        """Path and query of the request, without scheme and host."""
        query = self.request.url.query
        return path_in_addresses(self.request.scope) + (f"?{query}" if query else "")

    def segment(self, name: str) -> str:
        """A path parameter, quoted as a segment of another path."""
        return segment(self.path[name])

    @property
    def is_fragment(self) -> bool:
        """True if htmx requests a part of a page."""
        return self.request.headers.get("hx-request") == "true"

    @property
    def wants_json(self) -> bool:
        """True if the console's script sent the request: it needs the outcome as JSON, and renders it itself."""
        return "application/json" in self.request.headers.get("accept", "")

    async def form(self, most_bytes: int = MAX_FORM_BYTES) -> Form:
        """The submitted form. Raises Refused: it is too large, can't be read, or has no room now."""
        if self._form is None:
            try:
                fields = await read_form(self.request, most_bytes, _MAX_FIELDS)
                # Browsers send line breaks as CRLF.
                self._form = Form([(name, value.replace("\r\n", "\n")) for name, value in fields])
            except ProblemError as problem:
                # Kept: nobody may wait for a body that has been read.
                self._form = refusal_by(problem)
        if isinstance(self._form, Refused):
            raise self._form
        return self._form

    def may(self, permission: str) -> bool:
        """True if the visitor has the permission of this name."""
        return self.caller.may(Permission(permission))

    def page(self, template: str, *, status: int = 200, refused: Refused | None = None, **values: Any) -> HTMLResponse:
        """A page, or a part of one. One that shows a refusal has its status, and says when to try again."""
        text = PAGES.get_template(template).render(
            visit=self,
            nonce=self.nonce,
            navigation=visible(self.caller, self.request.url.path, is_well=is_service_well(self.request.app.state)),
            done=DONE.get(self.query.get("done", "")),
            new_key=token_urlsafe,
            target=f"{self.options.target / timedelta(hours=1):g} h",
            late=datetime.now(UTC) - self.options.target,
            refused=refused,
            **values,
        )
        headers = {"Content-Security-Policy": policy(self.nonce, self.options.images)}
        if refused and refused.retry_after:
            headers["Retry-After"] = refused.retry_after
        return HTMLResponse(text, refused.status if refused else status, headers)

    def back(self, path: str, done: str) -> Response:
        """The redirect to the next page after an action, or JSON for the script; `done` is a key of DONE."""
        if self.wants_json:
            return JSONResponse({"done": done, "message": DONE[done]})
        address = f"{path}{'&' if '?' in path else '?'}{urlencode({'done': done})}"
        return RedirectResponse(address, 303)

    def after(self, answer: Mapping[str, Any], path: str, done: str) -> Response:
        """The response to a command with this answer: confirms `done` if it took effect, else that it was accepted."""
        return self.back(path, "accepted" if answer["outcome"] == "accepted" else done)

    def problem(self, refused: Refused, back: str | None = None, kept: Form | None = None) -> Response:
        """The response to a refusal: a page with a link `back`, or with the form `kept` to be sent again; a fragment or
        JSON if one was requested."""
        if self.wants_json:
            content = {"message": refused.detail, "status": refused.status, "results": list(refused.results)}
            return JSONResponse(content, refused.status)
        if self.request.headers.get("sec-fetch-dest") == "iframe":
            return self.problem_in_frame(refused)
        return self.page(
            "problem_part.html" if self.is_fragment else "problem.html",
            refused=refused,
            back=back,
            kept=[each for each in kept.multi_items() if each[0] != "key"] if kept else [],
            form_key=lambda: key_of(kept or Form()),
            here=self.address,
        )

    def problem_in_frame(self, refused: Refused, errors: Mapping[str, Mapping[str, Any]] | None = None) -> Response:
        """A refusal in the frame of a preview. `errors`: the error of each part, with its line."""
        page = self.page("problem_framed.html", refused=refused, errors=errors)
        page.headers["Content-Security-Policy"] = FRAME_POLICY
        return page


def key_of(form: Form) -> str:
    """The idempotency key of a form. Without one of printable ASCII characters, each submission gets a new key."""
    key = form.get("key", "")
    return key if key.isascii() and key.isprintable() and key else token_urlsafe()


def policy(nonce: str, images: str) -> str:
    """The content security policy of a page. `images`: further origins of images, separated by spaces."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'nonce-{nonce}'",
            "style-src 'self'",
            f"img-src 'self' {images}".strip(),
            "connect-src 'self'",
            "form-action 'self'",
            "frame-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types htmx console",
        )
    )
