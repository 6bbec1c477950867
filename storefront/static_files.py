"""The static files for shops' pages: the widget's modules and its languages, readable from every origin.

A module imports the others, and the languages, by their version (`./plaudit-stars.js?v=1f0c9a2e`), so that a browser
with another version of one in its cache loads the matching one. All languages share one version.
"""

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from api.web.responses import matches_etag
from api.web.routes import PageRoute
from storefront.middleware import PREFIX
from storefront.responses import accepts_gzip

FOLDER: Final = Path(__file__).parent / "static"
_CACHE: Final = "public, max-age=300, stale-while-revalidate=86400"
_BYTES_OF_TAG: Final = 12
_LENGTH_OF_VERSION: Final = 8
_IMPORT: Final = re.compile(r"'\./(plaudit-\w+\.js)'")
_LANGUAGE: Final = re.compile(r"`languages/[^`]*\.json(?=`)")
_CACHE_OF_VERSION: Final = "public, max-age=31536000, immutable"
_CACHE_OF_OTHERS: Final = "no-store"
"""For requests of another version, while processes of two versions run: this version is the best available answer."""

_COMMENT_OR_INDENT: Final = re.compile(r"/\*\*.*?\*/\s*|^\s+", re.MULTILINE | re.DOTALL)
_MEDIA_TYPES: Final = {".js": "text/javascript; charset=utf-8", ".json": "application/json"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: its body, plain and gzipped, its entity tag and its version."""

    body: bytes
    compressed: bytes
    media_type: str
    tag: str
    version: str
    """The version by which modules request it."""

    def caching(self, version: str | None) -> str:
        """The `Cache-Control` of a response to a request for this version, or for none."""
        if version is None:
            return _CACHE
        return _CACHE_OF_VERSION if version == self.version else _CACHE_OF_OTHERS


@cache
def static_file(path: Path) -> StaticFile:
    """A module or a language. Modules are sent without comments and indentation."""
    text = path.read_text("utf-8")
    if path.suffix == ".js":
        text = _IMPORT.sub(lambda found: _versioned_import(path.with_name(found[1])), _COMMENT_OR_INDENT.sub("", text))
        text = _LANGUAGE.sub(lambda found: f"{found[0]}?v={_version_of_languages()}", text)
    body = text.encode()
    tag = _digest(body)
    version = tag[:_LENGTH_OF_VERSION] if path.suffix == ".js" else _version_of_languages()
    return StaticFile(body, gzip.compress(body, 9, mtime=0), _MEDIA_TYPES[path.suffix], tag, version)


def _versioned_import(path: Path) -> str:
    return f"'./{path.name}?v={static_file(path).version}'"


@cache
def _version_of_languages() -> str:
    return _digest(b"".join(path.read_bytes() for path in _languages()))[:_LENGTH_OF_VERSION]


def _languages() -> Sequence[Path]:
    return sorted(FOLDER.glob("languages/*.json"))


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=_BYTES_OF_TAG).hexdigest()


def routes() -> Sequence[PageRoute]:
    """A route for each module and each language."""
    paths = [*sorted(FOLDER.glob("*.js")), *_languages()]
    return [
        PageRoute(f"{PREFIX}{path.relative_to(FOLDER).as_posix()}", partial(_send, static_file(path))) for path in paths
    ]


async def _send(file: StaticFile, request: Request) -> Response:
    is_packed = accepts_gzip(request.headers.get("accept-encoding", ""))
    headers = {
        "ETag": f'"{file.tag}{"-gzip" if is_packed else ""}"',
        "Cache-Control": file.caching(request.query_params.get("v")),
        "Vary": "Accept-Encoding",
        "Access-Control-Allow-Origin": "*",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    if matches_etag(request.headers.get("if-none-match", ""), file.tag):
        return Response(status_code=304, headers=headers)
    if is_packed:
        headers["Content-Encoding"] = "gzip"
    body = file.compressed if is_packed else file.body
    return Response(body, headers=headers, media_type=file.media_type)
