"""The static files of the console.

Their addresses share one version, a hash of all of them: browsers cache the files for good, and never run scripts of
different versions together.
"""

import re
from hashlib import blake2b
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from api.web.routes import FolderRoute

FOLDER: Final = Path(__file__).parent / "static"
SCRIPTS: Final = sorted(path.name for path in (FOLDER / "console").glob("*.js"))
"""The modules that `console.js` starts."""

_BYTES_OF_VERSION: Final = 6
_CACHED: Final = "public, max-age=31536000, immutable"
_UNCACHED: Final = "no-store"
"""For requests of another version, while processes of two versions run: this version is the best available answer."""

_VERSION_FORMAT: Final = re.compile("[0-9a-f]{12}")


def _version() -> str:
    digest = blake2b(digest_size=_BYTES_OF_VERSION)
    for path in sorted(path for path in FOLDER.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(FOLDER).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


VERSION: Final = _version()
PREFIX: Final = f"/console/static/{VERSION}"
"""The prefix of the files' addresses."""


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        if not _VERSION_FORMAT.fullmatch(scope["path_params"]["version"]):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = _CACHED if scope["path_params"]["version"] == VERSION else _UNCACHED
        return response


def route() -> FolderRoute:
    """The route that serves the files."""
    return FolderRoute("/console/static/{version}", _Files(directory=FOLDER))
