"""The AsyncAPI document of the topics, beside the OpenAPI document of the routes, and its page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import orjson
from fastapi import APIRouter
from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from api.services import Injected
from api.web.documents import OPEN_TO_ALL, problems
from messaging.asyncapi import asyncapi_document
from messaging.topics import TopicNames

router = APIRouter(tags=["documents"], responses=problems())


@router.get(
    "/asyncapi.json",
    operation_id="readAsyncApi",
    summary="The AsyncAPI 3 document of the Kafka topics",
    openapi_extra=OPEN_TO_ALL,
)
async def asyncapi_json(services: Injected) -> Response:
    """Topics, keys and message schemas."""
    return Response(_document(services.topics, services.version), media_type="application/json")


@router.get("/asyncapi", include_in_schema=False)
async def asyncapi_page(services: Injected) -> HTMLResponse:
    """The same for people: one page without scripts."""
    return HTMLResponse(_page(services.topics, services.version))


@cache
def _document(topics: TopicNames, version: str) -> bytes:
    """Written once: it takes a tenth of a second, and is open to all."""
    return orjson.dumps(asyncapi_document(topics, version))


@cache
def _page(topics: TopicNames, version: str) -> str:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = _with_code
    template = environment.from_string(Path(__file__).with_name("asyncapi.html").read_text())
    return template.render(document=asyncapi_document(topics, version))


def _with_code(text: str) -> Markup:
    """Escaped, with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - of escaped text
