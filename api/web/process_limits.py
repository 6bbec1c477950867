"""The configurable limits of a process for all requests together."""

from typing import Annotated

from pydantic import BaseModel, Field


class Limits(BaseModel):
    """The limits of one process for all requests together: docs/security.md has them all."""

    max_body_bytes: Annotated[
        int, Field(ge=1_024, description="Bytes of a request body; image uploads have their own limit")
    ] = 1024 * 1024
    max_concurrent_requests: Annotated[
        int, Field(ge=1, description="Requests in one process; beyond that, 503 immediately")
    ] = 1_000
    max_bodies_bytes: Annotated[
        int, Field(ge=1_024, description="Bytes of all request bodies above 16 KiB in one process; beyond that, 503")
    ] = 32 * 1024 * 1024
    max_pages_bytes: Annotated[
        int,
        Field(ge=1_024, description="Bytes that MongoDB returns for lists to one process at a time; beyond that, 503"),
    ] = 32 * 1024 * 1024
    max_answers_bytes: Annotated[
        int,
        Field(
            ge=1_024,
            description="Bytes of all responses above 16 KiB that the clients of one process haven't "
            "read; beyond that, 503",
        ),
    ] = 32 * 1024 * 1024
    max_waits: Annotated[
        int,
        Field(ge=0, description="Requests with `Prefer: wait` that wait in one process; beyond that, 202 immediately"),
    ] = 1_000
    max_waits_per_client: Annotated[int, Field(ge=0, description="The same, per client")] = 100
    max_feeds: Annotated[
        int, Field(ge=1, description="Feeds of product reviews that one process sends at a time; beyond that, 503")
    ] = 8
    max_feeds_per_client: Annotated[int, Field(ge=1, description="The same, per client")] = 2
