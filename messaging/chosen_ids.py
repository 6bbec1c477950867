"""Ids that a sender chooses for something new, and that addresses name."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from messaging.schemas import Id, OptionalId

_PATHS: Final = (".", "..")
"""Clients leave these out of an address, with the part before `..`."""


def _addressable(*other_meanings: str) -> AfterValidator:
    """A validator that refuses ids that no address could name, and those with another meaning in an address."""
    *first, last = refused = (*_PATHS, *other_meanings)
    listed = f"{', '.join(first)} or {last}"

    def check(value: str | None, info: ValidationInfo) -> str | None:
        # Any context stands for a stored value, which an earlier version may have accepted.
        if value in refused and not info.context:
            raise PydanticCustomError("unaddressable", "Must not be {ids}: no address could name it", {"ids": listed})
        return value

    return AfterValidator(check)


ChosenId = Annotated[
    OptionalId,
    _addressable("canLeaveFeedback"),
    Field(description="Chosen by the sender; a repeat with the same id is stored once"),
]
"""The id of a new review or return."""

NewStoreId = Annotated[Id, _addressable()]
"""The id of a store that is registered or changed. Earlier versions registered others, which lists still have."""
