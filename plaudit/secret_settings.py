"""The configuration of secrets that can be changed without an end: several keys in one, with commas."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from domain.review_tokens import KEY_LENGTH


def each_key(keys: SecretStr | None) -> list[str]:
    """The keys of a secret, the one that is used from now on first."""
    return [key.strip() for key in keys.get_secret_value().split(",")] if keys else []


def long_enough(keys: SecretStr | None) -> SecretStr | None:
    """The same secret. Raises ValueError if one of its keys is shorter than KEY_LENGTH, or it is empty."""
    if keys is not None and any(len(key) < KEY_LENGTH for key in each_key(keys) or [""]):
        raise ValueError(f"each key must have at least {KEY_LENGTH} characters")
    return keys


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
