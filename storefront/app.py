"""The storefront's routes in the facade's application."""

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, FastAPI

from api.web.hygiene import HostNames
from storefront import feed, feedback, forms, images, jsonld, reviews, static_files, submissions, summaries
from storefront.answers import Answers
from storefront.demo import demo_routes
from storefront.middleware import StorefrontMiddleware
from storefront.options import StorefrontOptions
from storefront.rates import Rates

ROUTERS: Final[Sequence[APIRouter]] = (
    summaries.router,
    reviews.router,
    jsonld.router,
    feed.router,
    forms.router,
    submissions.router,
    images.router,
    feedback.router,
)


def add_storefront(app: FastAPI, options: StorefrontOptions | None = None) -> None:
    """Add the storefront to the facade's application, its middleware in front of all other."""
    options = options or StorefrontOptions()
    answers = app.state.storefront_answers = Answers()
    app.state.storefront_rates = Rates(options)
    app.state.storefront_check = options.check
    app.router.routes.extend(static_files.routes())
    app.router.routes.extend(route for router in ROUTERS for route in router.routes)
    app.router.routes.extend(demo_routes(app.state.services))
    names = HostNames(app.state.web_rules)
    app.add_middleware(StorefrontMiddleware, services=app.state.services, answers=answers, names=names)
