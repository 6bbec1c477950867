"""The configuration of the storefront."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, Field

from domain.forms import WritingLimits

_USUAL: Final = WritingLimits()


class StorefrontSettings(BaseModel):
    """The most that one address may send from pages to a process in an hour, and what is asked of browsers."""

    reviews_per_hour: Annotated[
        int, Field(ge=0, description="Of one object; ten times as many of all. 0: any number")
    ] = _USUAL.reviews
    images_per_hour: Annotated[int, Field(ge=0, description="The same, for images")] = _USUAL.images
    votes_per_hour: Annotated[int, Field(ge=0, description="The same, on one review")] = _USUAL.votes
    reports_per_hour: Annotated[int, Field(ge=0, description="The same, about one review")] = _USUAL.reports
    check: Annotated[bool, Field(description="Reviews need a browser's proof of work (ALTCHA)")] = False

    def limits(self) -> WritingLimits:
        """The rates."""
        return WritingLimits(self.reviews_per_hour, self.images_per_hour, self.votes_per_hour, self.reports_per_hour)
