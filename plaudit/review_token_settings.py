"""The configuration of review tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from plaudit.rotated_keys import LongKeys, each_key


class ReviewTokenSettings(BaseModel):
    """The keys of review tokens."""

    key: Annotated[
        LongKeys | None,
        Field(description="At least 32 characters; several with commas: the first signs. Missing: one in the database"),
    ] = None

    def keys(self) -> list[bytes]:
        """The keys that are configured, the one to sign by first."""
        return [key.encode() for key in each_key(self.key)]
