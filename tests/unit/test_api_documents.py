"""The OpenAPI document meets the needs of client generators."""

import re
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module
from itertools import chain
from pkgutil import walk_packages
from typing import Any
from unittest.mock import Mock

import orjson
import pytest
from fastapi import APIRouter
from jsonschema_rs import Draft202012Validator
from typer.testing import CliRunner

import api
from api.templates import Fields
from api.web.bodies import JsonBody
from api.web.concurrency import QUERIES
from api.web.openapi import openapi_document
from api.web.problems import ItemError, ProblemError, ProblemKind, problem_response
from messaging.asyncapi import asyncapi_document
from messaging.topics import TopicNames
from plaudit.cli.main import app as plaudit
from plaudit.tools.openapi import service_document
from tests.support.app import app_without_servers, client_without_servers
from tests.support.documents import ROOT

OPERATION = re.compile("[a-z]+([A-Z][a-z]+)+")
MOMENT = re.compile("at|[a-z]*At|since|[a-z]*Since|date|[a-z]*Date")
CONTENT_KEYWORDS = {"properties", "additionalProperties"}


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    """All object schemas within a part of the document."""
    if isinstance(part, dict):
        if part.get("type") == "object":
            yield part
        for each in part.values():
            yield from _objects(each)
    elif isinstance(part, list):
        for each in part:
            yield from _objects(each)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return service_document()


@pytest.fixture(scope="module")
def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for operations in document["paths"].values() for each in operations.values()]


def test_operation_ids_are_unique(operations: list[dict[str, Any]]) -> None:
    names = [each["operationId"] for each in operations]
    assert [name for name in names if names.count(name) > 1] == []
    assert [name for name in names if not OPERATION.fullmatch(name)] == []


def test_body_schemas_are_named_components(document: dict[str, Any], operations: list[dict[str, Any]]) -> None:
    bodies = [
        each["requestBody"]["content"].get("application/json", {}) for each in operations if "requestBody" in each
    ]
    objects = [each for body in bodies for each in _objects(body.get("schema"))]
    assert [each for each in objects if "properties" in each] == []
    assert [name for name in document["components"]["schemas"] if not name.isidentifier() or "__" in name] == []
    assert [each for each in _objects(document) if not CONTENT_KEYWORDS & each.keys()] == []


def _bodies() -> Iterator[JsonBody[Any]]:
    """The body readers of all endpoints of the API."""
    for module in walk_packages(api.__path__, "api."):
        yield from (each for each in vars(import_module(module.name)).values() if isinstance(each, JsonBody))
    yield from (Fields(required=required) for required in (True, False))


async def test_body_examples_are_accepted() -> None:
    taken = 0
    for body in _bodies():
        openapi: dict[str, Any] = body.openapi
        for name, sample in openapi["requestBody"]["content"]["application/json"]["examples"].items():
            _, ignored = await body.read(orjson.dumps(sample["value"]))
            assert not ignored, name
            taken += 1
    assert taken > 20


def test_queries_and_commands_are_distinguished_by_path(document: dict[str, Any]) -> None:
    """The path alone decides which concurrency limit applies. A review claim is a command without an outcome."""
    for path, methods in document["paths"].items():
        names = [parameter.get("name") for parameter in methods.get("post", {}).get("parameters", ())]
        is_command = "Prefer" in names or path.endswith("/claim")
        assert "post" not in methods or is_command == (path.rpartition("/")[2] not in QUERIES), path


def test_only_the_title_field_has_a_title(document: dict[str, Any]) -> None:
    review = document["components"]["schemas"]["SubmittedReview"]["properties"]
    assert "title" in review
    assert "title" not in review["userId"]


def test_optional_fields_of_updates_have_no_default(document: dict[str, Any]) -> None:
    """A generated client sends defaults, and would reset fields that it should leave alone."""
    partial = [
        each
        for source in (document, asyncapi_document(TopicNames("plaudit."), "1"))
        for each in _objects(source)
        if "mitted fields keep their values" in each.get("description", "")
        or each.get("title") in ("StoreUpdate", "NamedTemplate")
    ]
    assert len(partial) > 10
    assert [
        (each["description"], name)
        for each in partial
        for name, field in each["properties"].items()
        if "default" in field
    ] == []


def test_timestamps_have_date_time_format(document: dict[str, Any]) -> None:
    fields = [
        (name, field)
        for each in (document, asyncapi_document(TopicNames("plaudit."), "1"))
        for schema in _objects(each)
        for name, field in schema.get("properties", {}).items()
        if MOMENT.fullmatch(name)
    ]
    assert len(fields) > 40
    assert [(name, field) for name, field in fields if '"date-time"' not in orjson.dumps(field).decode()] == []


def test_numbers_have_one_type(document: dict[str, Any]) -> None:
    # A choice of `integer` and `number` gives generators a class without content.
    documents = [document, asyncapi_document(TopicNames("plaudit."), "1")]
    choices = [
        name
        for each in _objects(documents)
        for name, field in each.get("properties", {}).items()
        if sum(choice.get("type") in {"integer", "number"} for choice in field.get("anyOf", ())) > 1
    ]
    assert choices == []
    text = orjson.dumps(document).decode()
    assert 0 < text.count('"type":"number"') == len(re.findall('"type":"number"[^{}]*"format":"double"', text))


def test_required_texts_have_min_length(document: dict[str, Any]) -> None:
    review = document["components"]["schemas"]["SubmittedReview"]["properties"]
    (store,) = document["paths"]["/api/stores/{storeId}"]["put"]["parameters"][:1]
    schemas = {
        **{name: review[name] for name in ("EntityId", "EntityType", "title")},
        "review": review["review"]["anyOf"][0],
        "storeId": store["schema"],
    }
    assert {name: each.get("minLength") for name, each in schemas.items()} == {
        **{"EntityId": 1, "EntityType": 1, "review": 1, "storeId": 1},
        "title": None,
    }


def test_every_operation_documents_problems(operations: list[dict[str, Any]]) -> None:
    undocumented = [each["operationId"] for each in operations if "default" not in each["responses"]]
    assert undocumented == []


def test_operations_that_read_credentials_document_401(operations: list[dict[str, Any]]) -> None:
    """Also those that are open to strangers: `GET /api/images/{id}` refuses an invalid credential."""
    undocumented = [
        each["operationId"] for each in operations if each.get("security") and "401" not in each["responses"]
    ]
    assert undocumented == []


def test_operations_document_403_if_they_need_a_permission(operations: list[dict[str, Any]]) -> None:
    """`GET /api/me` takes any valid credential."""
    for each in operations:
        if security := each.get("security"):
            assert any(chain(*(scheme.values() for scheme in security))) == ("403" in each["responses"])


def test_problems_of_commands_match_their_schemas(document: dict[str, Any]) -> None:
    """If an id is taken, nothing is published, so the problem carries no outcome."""
    outcome = {
        "commandId": "c-1",
        "ids": ["r-1"],
        "outcome": "refused",
        "results": [{"id": "r-1", "outcome": "refused"}],
    }
    error: ItemError = {"pointer": "/0/id", "code": "id-taken", "message": "The id is taken"}
    found = [
        ProblemError(ProblemKind.NOT_APPLIED, "No", extra=outcome),
        ProblemError(ProblemKind.ID_TAKEN, "No", [error]),
    ]
    answers = document["paths"]["/api/customerReviews"]["post"]["responses"]
    for problem in found:
        schema = answers[str(problem.kind.status)]["content"]["application/problem+json"]["schema"]
        body = bytes(problem_response({"type": "http", "path": "/api/customerReviews"}, problem).body)
        validator = Draft202012Validator({**schema, "components": document["components"]})
        assert [error.message for error in validator.iter_errors(orjson.loads(body))] == [], problem.kind


def test_problem_of_a_reused_key_is_documented(document: dict[str, Any]) -> None:
    problem = ProblemError(ProblemKind.KEY_REUSED, "No", extra={"commandId": "c-1"})
    body = orjson.loads(bytes(problem_response({"type": "http", "path": "/api/return"}, problem).body))
    assert body.keys() - document["components"]["schemas"]["Problem"]["properties"].keys() == set()


async def test_served_document_matches_the_printed_one() -> None:
    async with app_without_servers() as app:
        paths = app.openapi()["paths"]
    whole = service_document()["paths"]
    assert {path: whole[path] for path in whole if not path.startswith("/storefront/")} == paths


def test_conflicting_schema_names_are_refused() -> None:
    router = APIRouter()
    for path, kind in (("/a", "string"), ("/b", "integer")):
        schema = {"title": "Thing", "type": "object", "properties": {"name": {"type": kind}}}
        extra = {"requestBody": {"content": {"application/json": {"schema": schema}}}}

        @router.post(path, name=f"make{path[1:]}", openapi_extra=extra)
        async def make() -> None: ...

    with pytest.raises(ValueError, match="Thing"):
        openapi_document(router.routes, "1")


def test_typescript_client_is_up_to_date() -> None:
    """Generating its types needs a tool that not every machine has, so the hash of its source document is committed."""
    printed = CliRunner().invoke(plaudit, ["openapi"]).stdout
    noted = (ROOT / "clients" / "typescript" / "openapi.sha256").read_text().strip()
    assert sha256(printed.encode()).hexdigest() == noted, "run `make client`"


async def test_asyncapi_document_is_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rendering it takes long, and it is public."""
    async with client_without_servers() as http:
        first = [await http.get(path) for path in ("/asyncapi.json", "/asyncapi")]
        monkeypatch.setattr("api.documents.asyncapi_document", Mock(side_effect=AssertionError))
        again = [await http.get(path) for path in ("/asyncapi.json", "/asyncapi")]
    assert [each.status_code for each in (*first, *again)] == [200] * 4
    assert [each.content for each in first] == [each.content for each in again]
