"""The demo shop at `/demo`: a list of three products, and a page for each. Only without authentication."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles

from api.auth.permissions import client_address
from api.services import Services, services_of
from api.web.middleware import problem_of
from api.web.problems import ProblemError, not_found, retry_after
from api.web.routes import FolderRoute, PageRoute
from domain.ratings import Entity, RatingTally
from storage.database import result_or_default
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
    return (
        FolderRoute("/demo/static", StaticFiles(directory=_FOLDER / "demo_static")),
        PageRoute("/demo", partial(_serve, _show_list)),
        PageRoute("/demo/", _front_page),
        PageRoute("/demo/{product}", partial(_serve, _show_product)),
        PageRoute("/demo/{rest:path}", partial(_serve, _unknown_page)),
    )


async def _front_page(request: Request) -> Response:
    return RedirectResponse("/demo", 307)


async def _unknown_page(request: Request) -> Response:
    raise not_found("page")


async def _serve(show: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
    """The page that `show` makes; if it raises, a page that tells a shopper what to do."""
    try:
        request.app.state.rate_limit.take(client_address(request))
        return await show(request)
    except ProblemError as problem:
        return _problem_page(problem)
    except Exception as error:
        return _problem_page(problem_of(request.scope, error))


async def _show_list(request: Request) -> Response:
    """All products, with their stars."""
    is_filled = _is_filled(await _tallies(request))
    return _page("list.html", _status(is_filled), products=PRODUCTS, is_filled=is_filled)


async def _show_product(request: Request) -> Response:
    """A product with its reviews; `lang` is the language of the widget. Links in reminders have a `token`, which the
    widget reads, and which stays when the language changes. Raises ProblemError (404)."""
    found = next((each for each in PRODUCTS if each.id == request.path_params["product"]), None)
    if found is None:
        raise not_found("product")
    language = request.query_params.get("lang", "")
    tallies = await _tallies(request)
    is_filled = _is_filled(tallies)
    return _page(
        "product.html",
        _status(is_filled),
        product=found,
        others=[each for each in PRODUCTS if each is not found],
        language=language if language in LANGUAGES else "en",
        languages=LANGUAGES,
        token=request.query_params.get("token"),
        is_filled=is_filled,
        has_reviews=found.id in (tallies or {}),
        structured=await _structured(request, found.id) if is_filled else None,
    )


async def _structured(request: Request, product_id: str) -> Markup:
    """The product's structured data for search engines, as its endpoint returns it."""
    answers: Answers = request.app.state.storefront_answers
    address = f"{PREFIX}{STORE_ID}/{ENTITY_TYPE}/{product_id}/jsonld".encode()
    load = partial(structured_answer, await services_of(request), STORE_ID, Entity(ENTITY_TYPE, product_id))
    # Safe here: the answer is escaped for script elements.
    return Markup((await answers.of(address, load)).body.decode())  # noqa: S704


async def _tallies(request: Request) -> Mapping[str, RatingTally] | None:
    """The tallies of the products that have reviews, by id; None while MongoDB is unavailable."""
    services = await services_of(request)
    ids = [each.id for each in PRODUCTS]
    return await result_or_default(services.lookups.tallies(STORE_ID, ENTITY_TYPE, ids), None)


def _is_filled(tallies: Mapping[str, RatingTally] | None) -> bool | None:
    """True if a product has reviews; None if that isn't known."""
    return None if tallies is None else bool(tallies)


def _status(is_filled: bool | None) -> int:
    """Without reviews, search engines and monitors have to come back later."""
    return 503 if is_filled is None else 200


def _problem_page(problem: ProblemError) -> Response:
    page = _page("problem.html", problem.kind.status, is_filled=True)
    page.headers.update(problem.headers)
    return page


def _page(template: str, status: int, **shown: object) -> Response:
    named = {"shop": STORE_NAME, "store_id": STORE_ID, "entity_type": ENTITY_TYPE, "status": status}
    text = _PAGES.get_template(template).render(**named, **shown)
    return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY, **retry_after(status)})
