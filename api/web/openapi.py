"""The OpenAPI document: derived from the routes by FastAPI, plus the bodies that we read ourselves."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel, to_pascal
from starlette.routing import BaseRoute

from api.web.problems import ItemError, ProblemKind

_TITLE: Final = "Plaudit"
_DESCRIPTION: Final = (
    "Reviews and ratings of any kind of object, and returns of orders. A command is answered with 202 once "
    "Kafka has stored it or, with `Prefer: wait=N`, with 200 once it has been applied. Timestamps are ISO "
    "8601; responses have them in UTC."
)
_ANY_OTHER: Final = "Any other problem"
_PROBLEM: Final = "Problem"
_PROBLEM_REFERENCE: Final = {"$ref": f"#/components/schemas/{_PROBLEM}"}
_PROBLEM_CONTENT: Final = {"application/problem+json": {"schema": _PROBLEM_REFERENCE}}
_SAMPLES: Final = frozenset({"default", "example", "examples"})

_RESPONSES: Final = {
    _ANY_OTHER: "AnyOther",
    **{kind.members["title"]: to_pascal(kind.name.lower()) for kind in ProblemKind},
}
"""The names of responses that are problems, by description."""

_KEY_HEADER: Final = "Idempotency-Key"

_PREFIXES: Final = ("/api/", "/storefront/")
"""Prefixes of the paths whose operations refuse unknown parameters, and need MongoDB or Kafka."""

_KEY_SCHEME_NAME: Final = "apiKeys"
_KEY_SCHEME: Final = {
    "type": "apiKey",
    "in": "header",
    "name": "X-API-Key",
    "description": "An API key, if `PLAUDIT_AUTH__MODE` is `api_key`. The listed names are the required permissions.",
}

OPEN_TO_ALL: Final[dict[str, Any]] = {"security": []}
"""The `openapi_extra` of an endpoint without authentication."""

OPEN_TO_STRANGERS: Final[dict[str, Any]] = {"security": [{}]}
"""The `openapi_extra` of an endpoint that answers everybody, and shows some callers more."""


def problems(*kinds: ProblemKind) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an endpoint that can end with these problems."""
    found: dict[int | str, dict[str, Any]] = {"default": {"description": _ANY_OTHER, "content": _PROBLEM_CONTENT}}
    for kind in kinds:
        found[kind.status] = {"description": kind.members["title"], "content": _PROBLEM_CONTENT}
    return found


def openapi_document(routes: Sequence[BaseRoute], version: str) -> dict[str, Any]:
    """The OpenAPI document of these routes, with all schemas among its components.

    Operations are named after their endpoints, in camel case, or by their `operation_id`. Raises ValueError if two
    schemas of bodies have the same name.
    """
    document = get_openapi(title=_TITLE, version=version, description=_DESCRIPTION, routes=routes)
    names = {
        route.unique_id: route.operation_id or to_camel(route.name) for route in routes if isinstance(route, APIRoute)
    }
    components = document.setdefault("components", {})
    components["responses"] = {
        name: {"description": description, "content": _PROBLEM_CONTENT} for description, name in _RESPONSES.items()
    }
    components.setdefault("securitySchemes", {})[_KEY_SCHEME_NAME] = _KEY_SCHEME
    schemas = components.setdefault("schemas", {})
    schemas |= {_PROBLEM: _problem_schema(), ItemError.__name__: TypeAdapter(ItemError).json_schema()}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            if security := operation.get("security"):
                operation["security"] = [*security, *_by_key(security)]
            operation["operationId"] = names[operation["operationId"]]
            responses = {status: _by_reference(each) for status, each in operation["responses"].items()}
            operation["responses"] = _with_common_problems(path, operation, responses)
            for content in operation.get("requestBody", {}).get("content", {}).values():
                content["schema"] = _named(content["schema"], schemas)
    components["schemas"] = dict(sorted(schemas.items()))
    for part in ("paths", "components"):
        document[part] = _for_generators(document[part])
    return document


def _by_key(security: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same requirements, met by an API key in its own header."""
    return [{_KEY_SCHEME_NAME: each[name]} for each in security for name in each]


def _by_reference(response: dict[str, Any]) -> dict[str, Any]:
    """The response, as a reference if it is a plain problem: most operations have the same ones."""
    if response.get("content") != _PROBLEM_CONTENT:
        return response
    return {"$ref": f"#/components/responses/{_RESPONSES[response['description']]}"}


def _with_common_problems(path: str, operation: Mapping[str, Any], responses: dict[str, Any]) -> dict[str, Any]:
    """The responses, with the problems that follow from the kind of the operation: its credential, its body and, under
    the prefixes of the interface, its parameters and servers."""
    kinds = []
    if security := operation.get("security"):
        # What needs no permission still refuses an invalid credential.
        kinds.append(ProblemKind.UNAUTHENTICATED)
        if any(permissions for each in security for permissions in each.values()):
            kinds.append(ProblemKind.FORBIDDEN)
    if "application/json" in operation.get("requestBody", {}).get("content", {}):
        kinds += [ProblemKind.MALFORMED_JSON, ProblemKind.TOO_LARGE, ProblemKind.UNSUPPORTED_MEDIA_TYPE]
    if any(each["name"] == _KEY_HEADER for each in operation.get("parameters", ())):
        kinds.append(ProblemKind.INVALID_HEADER)
    if path.startswith(_PREFIXES):
        kinds += [ProblemKind.VALIDATION, ProblemKind.UNAVAILABLE]
    for kind in kinds:
        responses.setdefault(str(kind.status), _reference(kind))
    return dict(sorted(responses.items()))


def _reference(kind: ProblemKind) -> dict[str, str]:
    return {"$ref": f"#/components/responses/{_RESPONSES[kind.members['title']]}"}


def _named(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body, as a reference if it is an object: generated code needs a name for its type."""
    found = schema.pop("$defs", {})
    name = schema.get("title")
    if schema.get("type") == "object" and name is not None:
        found[name] = schema
        schema = {"$ref": f"#/components/schemas/{name}"}
    for each, content in found.items():
        if schemas.setdefault(each, content) != content:
            raise ValueError(f"two different schemas are named {each}")
    return schema


def _for_generators(value: Any) -> Any:
    """The same without the titles of schemas, as pydantic's repeat the names of fields (`Createddate`), and with the
    precision of numbers: of a number without a format, oapi-codegen makes one of 32 bits."""
    if isinstance(value, list):
        return [_for_generators(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {
        name: part if name in _SAMPLES else _for_generators(part)
        for name, part in value.items()
        if name != "title" or not isinstance(part, str)
    }
    return {**found, "format": "double"} if value.get("type") == "number" else found


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
            "errors": {"type": "array", "items": {"$ref": f"#/components/schemas/{ItemError.__name__}"}},
            "commandId": {**text, "description": "Of the command that the Idempotency-Key belongs to, if it is reused"},
        },
    }
