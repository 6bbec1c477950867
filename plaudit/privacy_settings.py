"""The configuration of the record of erasures."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from plaudit.rotated_keys import each_key, long_enough


class PrivacySettings(BaseModel):
    """The record of erasures."""

    erasure_key: Annotated[
        SecretStr | None,
        AfterValidator(long_enough),
        Field(description="At least 32 characters; several with commas: the first marks. Missing: one in the database"),
    ] = None

    def keys(self) -> list[bytes]:
        """The keys that are configured, the one to mark by first. Before there could be several, the key was the secret
        as it stands, with blanks and commas, and marks of that time are known by it."""
        whole = self.erasure_key.get_secret_value() if self.erasure_key else ""
        before = [*(part.lstrip() for part in whole.split(",")), whole] if whole else []
        return [key.encode() for key in dict.fromkeys([*each_key(self.erasure_key), *before])]
