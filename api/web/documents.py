"""The OpenAPI document: what FastAPI derives from the routes, and the bodies that we read ourselves."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from api.web.problems import ItemError, ProblemKind

_PROBLEM: Final = "Problem"
_PROBLEM_REFERENCE: Final = {"$ref": f"#/components/schemas/{_PROBLEM}"}

OPEN_TO_ALL: Final[dict[str, Any]] = {"security": []}
"""The `openapi_extra` of an endpoint without authentication."""

OPEN_TO_STRANGERS: Final[dict[str, Any]] = {"security": [{}, {"permissions": []}]}
"""That of an endpoint which answers everybody, and some more than others."""


def problems(*kinds: ProblemKind) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an endpoint that can end with these problems."""
    content = {"application/problem+json": {"schema": _PROBLEM_REFERENCE}}
    found: dict[int | str, dict[str, Any]] = {"default": {"description": "Any other problem", "content": content}}
    for kind in kinds:
        found[kind.status] = {"description": kind.members["title"], "content": content}
    return found


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The whole document, with all schemas among its components."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas[_PROBLEM] = _problem_schema()
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                schemas.update(content["schema"].pop("$defs", {}))
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "title": _PROBLEM,
        "description": "Problem details, RFC 9457",
        "type": "object",
        "required": ["type", "title", "status", "detail", "instance"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "instance": {"type": "string", "format": "uri-reference"},
            "errors": {"type": "array", "items": TypeAdapter(ItemError).json_schema()},
        },
    }
