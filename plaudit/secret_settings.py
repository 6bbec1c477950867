"""Settings of secrets that can be rotated: one value holds several keys, separated by commas."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, SecretStr

from domain.review_tokens import KEY_LENGTH


def each_key(keys: SecretStr | None) -> list[str]:
    """The keys in a secret, the current one first."""
    return [key.strip() for key in keys.get_secret_value().split(",")] if keys else []


def long_enough(keys: SecretStr | None) -> SecretStr | None:
    """The secret. Raises ValueError if it is empty, or one of its keys is shorter than KEY_LENGTH characters."""
    if keys is not None and any(len(key) < KEY_LENGTH for key in each_key(keys) or [""]):
        raise ValueError(f"each key must have at least {KEY_LENGTH} characters")
    return keys


class PrivacySettings(BaseModel):
    """The record of erasures."""

    erasure_key: Annotated[
        SecretStr | None,
        AfterValidator(long_enough),
        Field(
            description="At least 32 characters; several separated by commas: the first makes new marks. Unset: a "
            "key in the database"
        ),
    ] = None

    def keys(self) -> list[bytes]:
        """The configured keys, the one for new marks first. Earlier versions used the whole secret, with spaces and
        commas, as one key; marks of that time are recognised by the variants at the end."""
        whole = self.erasure_key.get_secret_value() if self.erasure_key else ""
        before = [*(part.lstrip() for part in whole.split(",")), whole] if whole else []
        return [key.encode() for key in dict.fromkeys([*each_key(self.erasure_key), *before])]


class ReviewTokenSettings(BaseModel):
    """The keys of review tokens."""

    key: Annotated[
        SecretStr | None,
        AfterValidator(long_enough),
        Field(
            description="At least 32 characters; several separated by commas: the first signs new tokens, all are "
            "accepted; [to change it](operations.md#rotating-keys). Unset: a key in the database"
        ),
    ] = None

    def keys(self) -> list[bytes]:
        """The configured keys, the signing key first."""
        return [key.encode() for key in each_key(self.key)]
