"""JSON answers, rendered once and not checked a second time: what is in them comes from our own code."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response


class JsonResponse(Response):
    """A JSON body from plain dicts, lists, strings and numbers."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return orjson.dumps(content)


class ProblemResponse(JsonResponse):
    """A body of RFC 9457."""

    media_type = "application/problem+json"
