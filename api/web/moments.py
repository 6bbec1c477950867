"""Points in time as clients send them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from domain.timestamps import moment_in


def moment(value: object) -> datetime:
    """A moment in ISO 8601. Raises PydanticCustomError."""
    try:
        if not isinstance(value, str):
            raise TypeError
        return moment_in(value)
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError(
            "date_time", "Must be a date and time of ISO 8601, like 2022-10-04T03:46:43.433Z"
        ) from None


Moment = Annotated[datetime, PlainValidator(moment), WithJsonSchema({"type": "string", "format": "date-time"})]
