"""The options of the storefront, set by the configuration."""

from typing import Annotated

from pydantic import BaseModel, Field


class StorefrontOptions(BaseModel):
    """Hourly bounds, per process, on submissions from one address by pages, and a check of browsers."""

    reviews_per_hour: Annotated[
        int, Field(ge=0, description="Of one object; ten times as many of all. 0: any number")
    ] = 10
    images_per_hour: Annotated[int, Field(ge=0, description="The same, for images")] = 30
    votes_per_hour: Annotated[int, Field(ge=0, description="The same, on one review")] = 10
    reports_per_hour: Annotated[int, Field(ge=0, description="The same, about one review")] = 5
    check: Annotated[bool, Field(description="Reviews need a browser's proof of work (ALTCHA)")] = False
