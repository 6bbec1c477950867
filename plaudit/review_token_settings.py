"""The configuration of review tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, field_validator

from domain.review_tokens import KEY_LENGTH


class ReviewTokenSettings(BaseModel):
    """The keys of review tokens."""

    key: Annotated[
        SecretStr | None,
        Field(description="At least 32 characters; several with commas: the first signs. Missing: one in the database"),
    ] = None

    @field_validator("key")
    @classmethod
    def _long_enough(cls, key: SecretStr | None) -> SecretStr | None:
        if key and any(len(each) < KEY_LENGTH for each in _parts(key)):
            raise ValueError(f"each key must have at least {KEY_LENGTH} characters")
        return key

    def keys(self) -> list[bytes]:
        """The keys that are configured, the one to sign by first."""
        return [each.encode() for each in _parts(self.key)] if self.key else []


def _parts(key: SecretStr) -> list[str]:
    return [each.strip() for each in key.get_secret_value().split(",")]
