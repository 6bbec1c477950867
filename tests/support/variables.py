"""The environment variables that Plaudit reads."""

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel, SecretStr


def variables(model: type[BaseModel], prefix: str = "PLAUDIT_") -> Iterator[tuple[str, bool]]:
    """The variables of a settings model, and whether each is a secret."""
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from variables(field.annotation, variable + "__")
        else:
            yield variable, SecretStr in get_args(field.annotation)
