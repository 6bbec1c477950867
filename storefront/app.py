"""The storefront as part of the facade's application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter, FastAPI

from storefront import reviews, static_files, summaries
from storefront.answers import Answers
from storefront.door import StorefrontDoor

ROUTERS: Final[Sequence[APIRouter]] = (summaries.router, reviews.router)


def add_storefront(app: FastAPI) -> None:
    """Add the storefront to the facade's application, before its other middleware."""
    answers = app.state.storefront_answers = Answers()
    app.router.routes.extend(static_files.routes())
    app.router.routes.extend(route for router in ROUTERS for route in router.routes)
    app.add_middleware(StorefrontDoor, services=app.state.services, answers=answers)
