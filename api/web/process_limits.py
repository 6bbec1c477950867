"""The configurable limits of a process for all requests together."""

from typing import Annotated

from pydantic import BaseModel, Field


class Limits(BaseModel):
    """The limits of one process for all requests together: docs/security.md has them all."""

    max_body_bytes: Annotated[
        int, Field(ge=1_024, description="Of a request; uploads of images have a limit of their own")
    ] = 1024 * 1024
    max_concurrent_requests: Annotated[int, Field(ge=1, description="Of one process; beyond, 503 at once")] = 1_000
    max_bodies_bytes: Annotated[
        int, Field(ge=1_024, description="Of all bodies above 16 KiB that a process has in hand; beyond, 503")
    ] = 32 * 1024 * 1024
    max_pages_bytes: Annotated[
        int, Field(ge=1_024, description="Of what MongoDB returns for lists to a process at a time; beyond, 503")
    ] = 32 * 1024 * 1024
    max_answers_bytes: Annotated[
        int,
        Field(
            ge=1_024, description="Of all answers above 16 KiB that the clients of a process haven't read; beyond, 503"
        ),
    ] = 32 * 1024 * 1024
    max_waits: Annotated[int, Field(ge=0, description="By `Prefer: wait`, at one process; beyond, 202 at once")] = 1_000
    max_waits_per_client: Annotated[int, Field(ge=0, description="The same, of one client")] = 100
    max_feeds: Annotated[
        int, Field(ge=1, description="Of product reviews that one process sends at a time; beyond, 503")
    ] = 8
    max_feeds_per_client: Annotated[int, Field(ge=1, description="The same, to one client")] = 2
