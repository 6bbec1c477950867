"""The AsyncAPI document of the topics, and HTML pages of it and of the OpenAPI document of the routes."""

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import orjson
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.openapi.docs import get_swagger_ui_html
from jinja2 import Environment
from markupsafe import Markup, escape
from starlette.responses import FileResponse, HTMLResponse, Response

from api.auth.permissions import client_address
from api.services import Injected
from api.web.openapi import OPEN_TO_ALL, problems
from messaging.asyncapi import asyncapi_document
from messaging.topics import TopicNames

_FOLDER: Final = Path(str(files("fastapi_swagger") / "resources"))
_SCRIPT: Final = "swagger-ui-bundle.js"
_STYLE: Final = "swagger-ui.css"
_ICON: Final = "favicon-32x32.png"
_CACHED: Final = {"Cache-Control": "public, max-age=3600"}


async def _count(request: Request) -> None:
    """Count the request for its address. Raises ProblemError (429)."""
    request.app.state.rate_limit.take(client_address(request))


router = APIRouter(tags=["Documents"], responses=problems(), dependencies=[Depends(_count)])


@router.get("/openapi.json", include_in_schema=False)
async def openapi_json(request: Request) -> Response:
    """The OpenAPI document of the routes."""
    return Response(request.app.state.openapi_json(), media_type="application/json")


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
    """The AsyncAPI document as one page without scripts."""
    return HTMLResponse(_page(services.topics, services.version))


@router.get("/docs", include_in_schema=False)
async def openapi_page() -> HTMLResponse:
    """The OpenAPI document as a page: Swagger UI from the installed package, without any other host.

    URLs are relative, so that the page works under any path prefix.
    """
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Plaudit",
        swagger_js_url=f"docs/{_SCRIPT}",
        swagger_css_url=f"docs/{_STYLE}",
        swagger_favicon_url=f"docs/{_ICON}",
        # By default the document is sent to a validator of Swagger UI's makers.
        swagger_ui_parameters={"validatorUrl": None},
    )


@router.get("/docs/{asset}", include_in_schema=False)
async def openapi_page_asset(asset: str) -> FileResponse:
    """A file of Swagger UI."""
    if asset not in {_SCRIPT, _STYLE, _ICON}:
        raise HTTPException(404)
    return FileResponse(_FOLDER / asset, headers=_CACHED)


@cache
def _document(topics: TopicNames, version: str) -> bytes:
    """The AsyncAPI document. Cached: it takes a tenth of a second, and is open to all."""
    return orjson.dumps(asyncapi_document(topics, version))


@cache
def _page(topics: TopicNames, version: str) -> str:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = _with_code
    template = environment.from_string(Path(__file__).with_name("asyncapi.html").read_text())
    return template.render(document=asyncapi_document(topics, version))


def _with_code(text: str) -> Markup:
    """The text as escaped HTML, with parts between backticks as `<code>`."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - of escaped text
