"""The application: routers, problems, documents."""

from functools import cache
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from api import (
    audit,
    callers,
    dead_letters,
    documents,
    entity_types,
    feedback,
    health,
    health_details,
    images,
    metrics,
    moderation,
    outcomes,
    reminders,
    review_claims,
    templates,
)
from api.orders import routes as orders
from api.ratings import objects as rated_objects
from api.ratings import routes as ratings
from api.returns import routes as returns
from api.reviews import routes as reviews
from api.reviews import scrutiny
from api.services import Services
from api.stores import moderation_rules, policy
from api.stores import routes as stores
from api.web.budgets import Budget
from api.web.concurrency import ConcurrencyLimit
from api.web.encoded_slashes import EncodedSlashes
from api.web.hygiene import WebRules
from api.web.limits import RateLimit
from api.web.middleware import LastResort
from api.web.openapi import openapi_document
from api.web.problems import ProblemError, on_http_error, on_invalid_parameters, on_problem
from api.web.telemetry import RequestTelemetry

WEB_RULES: Final = WebRules()
# By feature, in the order in which routes are matched: the most frequently requested come first.
# Within customerReviews, fixed paths come before /{id}.
ROUTERS: Final = (
    ratings.router,
    moderation.router,
    reminders.viewed,
    feedback.router,
    images.router,
    scrutiny.router,
    review_claims.router,
    reviews.router,
    returns.router,
    orders.router,
    rated_objects.router,
    stores.router,
    policy.router,
    moderation_rules.router,
    templates.router,
    entity_types.router,
    outcomes.router,
    audit.router,
    reminders.router,
    callers.router,
    dead_letters.router,
    health.router,
    health_details.router,
    metrics.router,
    documents.router,
)


def create_app(
    services: Services,
    *,
    web: WebRules = WEB_RULES,
    rate_limit: RateLimit | None = None,
) -> FastAPI:
    """The facade on these services, which the caller opens and closes. `rate_limit` applies to each client."""
    limits = services.limits
    app = FastAPI(
        version=services.version,
        # Added directly: with an included router, each request would be matched twice.
        routes=[EncodedSlashes(), *(route for router in ROUTERS for route in router.routes)],
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        # A request has one span, ours. FastAPI's would contain the query, and start a second trace.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        middleware=[
            Middleware(RequestTelemetry),
            *web.middleware(),
            Middleware(
                ConcurrencyLimit,
                most=limits.max_concurrent_requests,
                bodies=Budget(limits.max_bodies_bytes, "bodies of"),
                answers=Budget(limits.max_answers_bytes, "answers to"),
                max_body_bytes=limits.max_body_bytes,
            ),
            Middleware(LastResort),
        ],
        exception_handlers={
            ProblemError: on_problem,
            HTTPException: on_http_error,
            RequestValidationError: on_invalid_parameters,
        },
    )
    app.state.services = services
    app.state.web_rules = web
    app.state.gauges = metrics.Gauges(services)
    app.state.readiness = health.Readiness(services)
    app.state.examination = health_details.Examination(services, app.state.gauges)
    app.state.rate_limit = rate_limit or RateLimit()

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = openapi_document(app.routes, app.version)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    # Written once: it takes a tenth of a second, and is open to all.
    app.state.openapi_json = cache(lambda: orjson.dumps(app.openapi()))
    return app
