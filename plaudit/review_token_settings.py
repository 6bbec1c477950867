"""The configuration of review tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from plaudit.rotated_keys import each_key, long_enough


class ReviewTokenSettings(BaseModel):
    """The keys of review tokens."""

    key: Annotated[
        SecretStr | None,
        AfterValidator(long_enough),
        Field(description="At least 32 characters; several with commas: the first signs. Missing: one in the database"),
    ] = None

    def keys(self) -> list[bytes]:
        """The keys that are configured, the one to sign by first."""
        return [key.encode() for key in each_key(self.key)]
