"""The demo shop at `/demo`: a list of three products, and a page for each. Only without authentication."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from api.auth.permissions import client_address
from api.services import Services
from api.web.routes import FolderRoute, PageRoute
from domain.ratings import Entity, RatingTally
from storefront.answers import Answers
from storefront.demo_products import ENTITY_TYPE, PRODUCTS, STORE_ID, STORE_NAME
from storefront.jsonld import structured_answer
from storefront.middleware import PREFIX

LANGUAGES: Final = {
    "en": "English",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "nl": "Nederlands",
    "ar": "العربية",
}
"""The languages of the widget."""

_FOLDER: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
_PAGES: Final = Environment(
    loader=FileSystemLoader(_FOLDER / "demo_templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def demo_routes(services: Services) -> Sequence[BaseRoute]:
    """The routes of the shop; none if authentication is on."""
    if services.authenticator.mode != "none":
        return ()
    shop = _Shop(services)
    return (
        FolderRoute("/demo/static", StaticFiles(directory=_FOLDER / "demo_static")),
        PageRoute("/demo", shop.show_list),
        PageRoute("/demo/{product}", shop.show_product),
    )


class _Shop:
    def __init__(self, services: Services) -> None:
        self._services = services

    async def show_list(self, request: Request) -> Response:
        """All products, with their stars."""
        request.app.state.rate_limit.take(client_address(request))
        return _page("list.html", products=PRODUCTS, is_filled=await self._is_filled())

    async def show_product(self, request: Request) -> Response:
        """A product with its reviews; `lang` is the language of the widget. Links in reminders have a `token`, which
        the widget reads, and which stays when the language changes."""
        request.app.state.rate_limit.take(client_address(request))
        found = next((each for each in PRODUCTS if each.id == request.path_params["product"]), None)
        if found is None:
            raise HTTPException(404)
        language = request.query_params.get("lang", "")
        is_filled = await self._is_filled()
        return _page(
            "product.html",
            product=found,
            others=[each for each in PRODUCTS if each is not found],
            language=language if language in LANGUAGES else "en",
            languages=LANGUAGES,
            token=request.query_params.get("token"),
            is_filled=is_filled,
            structured=await self._structured(request.app.state.storefront_answers, found.id) if is_filled else None,
        )

    async def _structured(self, answers: Answers, product_id: str) -> Markup:
        """The product's structured data for search engines, as its endpoint returns it."""
        address = f"{PREFIX}{STORE_ID}/{ENTITY_TYPE}/{product_id}/jsonld".encode()
        load = partial(structured_answer, self._services, STORE_ID, Entity(ENTITY_TYPE, product_id))
        # Safe here: the answer is escaped for script elements.
        return Markup((await answers.of(address, load)).body.decode())  # noqa: S704

    async def _is_filled(self) -> bool:
        tallies = await self._services.lookups.tallies(ENTITY_TYPE, [each.id for each in PRODUCTS])
        return any(stores.get(STORE_ID, RatingTally()).count for stores in tallies.values())


def _page(template: str, **shown: object) -> Response:
    text = _PAGES.get_template(template).render(shop=STORE_NAME, store_id=STORE_ID, entity_type=ENTITY_TYPE, **shown)
    return HTMLResponse(text, headers={"Content-Security-Policy": _POLICY})
