"""A browser without rendering: it keeps cookies, follows redirects and sends `Sec-Fetch-Site`."""

import re
from dataclasses import dataclass, field
from html import unescape
from http.cookies import SimpleCookie
from urllib.parse import urljoin, urlsplit

import httpx

_SAFE = ("GET", "HEAD")


@dataclass
class Browser:
    """One visitor. `jar` has the cookies as values by name, by host and port."""

    http: httpx.AsyncClient
    jar: dict[str, dict[str, str]] = field(default_factory=dict)

    def cookie(self, name: str) -> str | None:
        """The value of a cookie of the service."""
        return self.jar.get(self.http.base_url.netloc.decode(), {}).get(name)

    def keep(self, name: str, value: str) -> None:
        """Set a cookie of the service, as somebody with a copy of it does."""
        self.jar.setdefault(self.http.base_url.netloc.decode(), {})[name] = value

    async def get(self, address: str, *, follow: bool = True) -> httpx.Response:
        return await self._ask("GET", address, None, "none", follow)

    async def post(
        self, address: str, form: dict[str, str], *, site: str | None = "same-origin", follow: bool = True
    ) -> httpx.Response:
        return await self._ask("POST", address, form, site, follow)

    async def submit(self, page: httpx.Response, *, follow: bool = True, **fields: str) -> httpx.Response:
        """Send the first form of a page with its hidden fields and `fields`."""
        action = re.search(r'<form[^>]*\saction="([^"]*)"', page.text)
        assert action, page.text
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text)
        form = {name: unescape(value) for name, value in hidden} | fields
        return await self.post(urljoin(str(page.url), unescape(action[1])), form, follow=follow)

    async def _ask(
        self, method: str, address: str, form: dict[str, str] | None, site: str | None, follow: bool
    ) -> httpx.Response:
        url = urljoin(str(self.http.base_url), address)
        for _ in range(20):
            jar = self.jar.setdefault(urlsplit(url).netloc, {})
            headers = {"accept": "text/html", "cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
            if site is not None:
                headers["sec-fetch-site"] = site
            self.http.cookies.clear()
            response = await self.http.request(method, url, data=form, headers=headers)
            for header in response.headers.get_list("set-cookie"):
                for name, morsel in SimpleCookie(header).items():
                    is_over = morsel["max-age"] == "0" or "1970" in morsel["expires"]
                    jar.pop(name, None) if is_over else jar.update({name: morsel.value})
            if not (follow and response.is_redirect):
                return response
            before, url = url, urljoin(url, response.headers["location"])
            if method not in _SAFE and response.status_code != 307:
                method, form = "GET", None
            if urlsplit(before).netloc != urlsplit(url).netloc:
                site = "cross-site"
        raise AssertionError(f"too many redirects: {url}")
