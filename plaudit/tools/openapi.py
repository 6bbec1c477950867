"""The OpenAPI document without a running service."""

from importlib.metadata import version
from typing import Any

from api.app import ROUTERS as FACADE
from api.web.openapi import openapi_document
from storefront.app import ROUTERS as STOREFRONT


def service_document() -> dict[str, Any]:
    """The document that a service of this version serves at /openapi.json, for the facade and the storefront."""
    return openapi_document([route for router in (*FACADE, *STOREFRONT) for route in router.routes], version("plaudit"))
