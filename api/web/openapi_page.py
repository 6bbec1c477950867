"""The page of the OpenAPI document: Swagger UI from the installed package, without any other host."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import APIRouter, HTTPException
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import FileResponse, HTMLResponse

router = APIRouter(include_in_schema=False)

_FOLDER: Final = Path(str(files("fastapi_swagger") / "resources"))
_SCRIPT: Final = "swagger-ui-bundle.js"
_STYLE: Final = "swagger-ui.css"
_ICON: Final = "favicon-32x32.png"
_CACHED: Final = {"Cache-Control": "public, max-age=3600"}


@router.get("/docs")
async def openapi_page() -> HTMLResponse:
    """The routes, and requests to try. Addresses are relative, so that the page works behind any path."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Plaudit",
        swagger_js_url=f"docs/{_SCRIPT}",
        swagger_css_url=f"docs/{_STYLE}",
        swagger_favicon_url=f"docs/{_ICON}",
        # By default the document is sent to a validator of the makers of Swagger UI.
        swagger_ui_parameters={"validatorUrl": None},
    )


@router.get("/docs/{asset}")
async def openapi_page_asset(asset: str) -> FileResponse:
    """A file of Swagger UI."""
    if asset not in {_SCRIPT, _STYLE, _ICON}:
        raise HTTPException(404)
    return FileResponse(_FOLDER / asset, headers=_CACHED)
