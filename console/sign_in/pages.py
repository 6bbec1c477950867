"""The page at which visitors sign in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse

_TEMPLATES: Final = Environment(
    loader=PackageLoader("console.sign_in"), autoescape=select_autoescape(default=True), undefined=StrictUndefined
)


@dataclass(frozen=True, slots=True)
class SignInPage:
    """The page, with the way to sign in that the mode of the service has, and where the visitor goes then.

    `error` and `notice` are sentences. Where nobody can sign in, `is_open` is False, and the page offers no way.
    """

    mode: str
    way_back: str
    error: str = ""
    notice: str = ""
    is_open: bool = True

    def answer(self, status: int = 200, headers: Mapping[str, str] | None = None) -> HTMLResponse:
        """The page as an answer."""
        return HTMLResponse(_TEMPLATES.get_template("sign_in.html").render(page=self), status, headers)
