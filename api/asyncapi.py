"""The AsyncAPI document of the topics, beside the OpenAPI document of the routes, and its page."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from jinja2 import Environment, Template
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from api.services import Injected
from api.web.documents import OPEN_TO_ALL
from api.web.responses import JsonResponse
from messaging.asyncapi import asyncapi_document

router = APIRouter(tags=["documents"])


@router.get(
    "/asyncapi.json",
    operation_id="readAsyncApi",
    summary="The AsyncAPI 3 document of the Kafka topics",
    openapi_extra=OPEN_TO_ALL,
)
async def asyncapi_json(services: Injected) -> JsonResponse:
    """Topics, keys and message schemas."""
    return JsonResponse(asyncapi_document(services.topics, services.version))


@router.get("/asyncapi", include_in_schema=False)
async def asyncapi_page(services: Injected) -> HTMLResponse:
    """The same for people: one page without scripts."""
    document = asyncapi_document(services.topics, services.version)
    return HTMLResponse(_page().render(document=document))


@cache
def _page() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = _with_code
    return environment.from_string(Path(__file__).with_name("asyncapi.html").read_text())


def _with_code(text: str) -> Markup:
    """Escaped, with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - of escaped text
