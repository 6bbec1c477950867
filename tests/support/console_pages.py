"""Pages of the console in a browser without JavaScript: forms are filled in and sent."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

import httpx

from .retries import resend_until_settled


@dataclass
class PageForm:
    """A form: its target, and its fields with their values, without buttons and unchecked boxes."""

    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, list[str]] = field(default_factory=dict)
    """The values of each hidden field, which may be there for each line."""

    buttons: dict[str, str] = field(default_factory=dict)
    """The `formaction` of each button, by its value."""


@dataclass
class Console:
    http: httpx.AsyncClient

    async def open(self, path: str, status: int = 200) -> str:
        """A page with this status. Nothing in it may be inline script or style, or load from another origin."""
        return checked(await self.http.get(path), status)

    async def send(self, page: str, action: str, typed: Mapping[str, str | None], *, status: int = 200) -> str:
        """Fill in the form with this action, send it, and follow the redirect. A field of None is left out."""
        form = next(each for each in forms(page) if urlsplit(each.action).path == action)
        given = {name: value for name, value in {**form.fields, **typed}.items() if value is not None}
        where = form.buttons.get(given.get("step", "")) or form.action
        response = await resend_until_settled(partial(self.http.request, form.method, where, data=given))
        if response.status_code == 303:
            response = await self.http.get(response.headers["location"])
        return checked(response, status)


async def page_of(http: httpx.AsyncClient, path: str, **query: str) -> str:
    """A page that must exist; `path` as in a link."""
    return checked(await http.get(html.unescape(path), params=query or None), 200)


async def send_form(http: httpx.AsyncClient, page: str, action: str, fields: Mapping[str, Any]) -> httpx.Response:
    """Send a form that must be on a page, with its hidden fields and these, but none that the page filled in. Returns
    the response once the command has its outcome."""
    path = urlsplit(html.unescape(action)).path
    on_page = forms(await page_of(http, page))
    form = next(each for each in on_page if each.method == "POST" and urlsplit(each.action).path == path)
    return await resend_until_settled(partial(http.post, form.action, data={**form.hidden, **fields}))


def checked(response: httpx.Response, status: int) -> str:
    """The page of a response with this status. It has no inline script or style, and loads from no other origin."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    parser = _Forms()
    parser.feed(response.text)
    assert parser.inline == []
    return response.text


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[PageForm] = []
        self.inline: list[str] = []
        self._form: PageForm | None = None
        self._text: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.inline += [each for each in given if each == "style" or each.startswith("on")]
        if tag == "script" and not (given.get("src") or "").startswith("/console/static/"):
            self.inline.append(tag)
        name, value = given.get("name"), given.get("value") or ""
        if tag == "form":
            self._form = PageForm((given.get("method") or "get").upper(), given.get("action") or "")
            self.found.append(self._form)
        elif self._form is None or (name is None and tag != "option"):
            return
        elif tag == "input" and (given.get("type") != "checkbox" or "checked" in given):
            self._form.fields[str(name)] = value or ("on" if given.get("type") == "checkbox" else "")
            if given.get("type") == "hidden":
                self._form.hidden.setdefault(str(name), []).append(value)
        elif tag == "textarea":
            self._text = str(name)
            self._form.fields[self._text] = ""
        elif tag == "select":
            self._select = str(name)
        elif tag == "option" and self._select and "value" in given:
            if "selected" in given or self._select not in self._form.fields:
                self._form.fields[self._select] = value
        elif tag == "button":
            self._form.buttons[value] = given.get("formaction") or ""

    def handle_data(self, data: str) -> None:
        if self._form is not None and self._text is not None:
            self._form.fields[self._text] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._form is not None and self._text is not None:
            # Browsers drop a leading newline of the content.
            self._form.fields[self._text] = self._form.fields[self._text].removeprefix("\n")
            self._text = None
        elif tag == "select":
            self._select = None
        elif tag == "form":
            self._form = None


def forms(page: str) -> list[PageForm]:
    parser = _Forms()
    parser.feed(page)
    return parser.found


def text_of(page: str) -> str:
    """The text of a page without tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
