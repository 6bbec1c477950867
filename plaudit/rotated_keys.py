"""Keys of the configuration that can be changed without an end: several in one secret, with commas."""

from __future__ import annotations

from pydantic import SecretStr

from domain.review_tokens import KEY_LENGTH


def each_key(keys: SecretStr | None) -> list[str]:
    """The keys of a secret, the one that is used from now on first."""
    return [key.strip() for key in keys.get_secret_value().split(",")] if keys else []


def long_enough(keys: SecretStr | None) -> SecretStr | None:
    """The same secret. Raises ValueError if one of its keys is shorter than KEY_LENGTH, or it is empty."""
    if keys is not None and any(len(key) < KEY_LENGTH for key in each_key(keys) or [""]):
        raise ValueError(f"each key must have at least {KEY_LENGTH} characters")
    return keys
