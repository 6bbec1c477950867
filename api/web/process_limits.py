"""The configurable limits of a process for all requests together."""

from typing import Annotated

from pydantic import BaseModel, Field


class Limits(BaseModel):
    """The limits of one process for all requests together: docs/security.md has them all."""

    max_body_bytes: Annotated[
        int,
        Field(
            ge=1_024,
            description="Bytes of a request body; image uploads have their own limit. Each MiB of JSON can keep a "
            "process from all other requests for 0.2 s",
        ),
    ] = 1024 * 1024
    max_concurrent_requests: Annotated[
        int, Field(ge=1, description="Concurrent requests per process; beyond that, 503 immediately")
    ] = 1_000
    max_bodies_bytes: Annotated[
        int,
        Field(
            ge=1_024,
            description="Total bytes of the request bodies above 16 KiB that a process holds; beyond that, 503",
        ),
    ] = 32 * 1024 * 1024
    max_pages_bytes: Annotated[
        int,
        Field(
            ge=1_024, description="Total bytes that MongoDB returns to a process for lists at a time; beyond that, 503"
        ),
    ] = 32 * 1024 * 1024
    max_answers_bytes: Annotated[
        int,
        Field(
            ge=1_024,
            description="Total bytes of the responses above 16 KiB that clients of a process haven't read yet; beyond "
            "that, 503",
        ),
    ] = 32 * 1024 * 1024
    max_waits: Annotated[
        int,
        Field(ge=0, description="Requests that wait with `Prefer: wait`, per process; beyond that, 202 immediately"),
    ] = 1_000
    max_waits_per_client: Annotated[int, Field(ge=0, description="The same, per client")] = 100
    max_feeds: Annotated[
        int, Field(ge=1, description="Feeds of product reviews that a process sends at a time; beyond that, 503")
    ] = 8
    max_feeds_per_client: Annotated[int, Field(ge=1, description="The same, per client")] = 2
