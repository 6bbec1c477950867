"""A shop's page on its own origin, with the strictest Content Security Policy that lets the widget work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from storefront.static_files import FOLDER

HOST: Final = "localhost"
"""Another site than the service's 127.0.0.1."""

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText }
body { margin: 0 auto; max-width: 60rem; padding: 1rem }
"""


@dataclass
class ShopSite:
    """A site with these bodies by path. Its own copies of the widget are below `/copies`."""

    origin: str = ""
    pages: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)

    def show(self, path: str, service: str, body: str, *, head: str = "", html: str = 'lang="en"') -> str:
        """Publish a page about reviews of this service. Returns its address."""
        scripts = "".join(
            f'<script type="module" src="{service}/storefront/v1/plaudit-{name}.js"></script>'
            for name in ("reviews", "stars")
        )
        self.pages[path] = (
            f'<!doctype html><html {html}><head><meta charset="utf-8"><title>Camera</title>'
            '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/shop.css">'
            f"{head or scripts}</head><body><main><h1>Camera</h1>{body}</main></body></html>"
        )
        self.policies[path] = (
            f"default-src 'none'; script-src 'self' {service}; style-src 'self'; connect-src {service}; "
            f"img-src {service}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )
        return f"{self.origin}{path}"


@asynccontextmanager
async def shop_site() -> AsyncIterator[ShopSite]:
    """A site on its own port."""
    site = ShopSite()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path == "/shop.css":
                self._send("text/css", _STYLE.encode())
            elif path.startswith("/copies/") and (file := FOLDER / path.removeprefix("/copies/")).suffix == ".js":
                self._send("text/javascript", file.read_bytes())
            elif path in site.pages:
                self._send("text/html", site.pages[path].encode(), site.policies[path])
            else:
                self.send_response(204)
                self.end_headers()

        def _send(self, kind: str, body: bytes, policy: str | None = None) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if policy:
                self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    site.origin = f"http://{HOST}:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield site
    finally:
        await asyncio.to_thread(server.shutdown)
        thread.join()
        server.server_close()
