"""The options of the storefront, set by the configuration."""

from typing import Annotated

from pydantic import BaseModel, Field


class StorefrontOptions(BaseModel):
    """Hourly bounds, per process, on submissions from one address by pages, and a check of browsers."""

    reviews_per_hour: Annotated[
        int,
        Field(
            ge=0,
            description="Reviews of one object per address and hour, and ten times as many of all objects; 0: no limit",
        ),
    ] = 10
    images_per_hour: Annotated[int, Field(ge=0, description="Images for reviews of one object, counted alike")] = 30
    votes_per_hour: Annotated[int, Field(ge=0, description="Votes on one review, counted alike")] = 10
    reports_per_hour: Annotated[int, Field(ge=0, description="Reports about one review, counted alike")] = 5
    check: Annotated[bool, Field(description="true: reviews require a proof of work by the browser (ALTCHA)")] = False
