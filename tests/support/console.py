"""The console in a browser without JavaScript."""

import re
from collections.abc import Mapping
from functools import partial
from html import unescape
from typing import Any

import httpx

from .retries import resend_until_settled


async def page_of(http: httpx.AsyncClient, path: str, **query: str) -> str:
    """The HTML of a page that must exist."""
    response = await http.get(unescape(path), params=query or None)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    return response.text


async def send_form(http: httpx.AsyncClient, page: str, action: str, fields: Mapping[str, Any]) -> httpx.Response:
    """Send a form that must be on a page. Returns the response once the command has its outcome."""
    text = await page_of(http, page)
    forms = re.findall(rf'action="{re.escape(action)}">\s*<input type="hidden" name="key" value="([^"]+)">', text)
    assert forms, f"no form for {action} on {page}"
    own = {"own": re.findall(r'name="own" value="([^"]*)"', text)} if "line" in fields else {}
    return await resend_until_settled(partial(http.post, unescape(action), data={"key": forms[0], **own, **fields}))
