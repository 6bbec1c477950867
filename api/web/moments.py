"""Points in time as clients send them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError


def moment(value: object) -> datetime:
    """ISO 8601, in UTC unless it says otherwise; a day alone is its first moment. Raises PydanticCustomError."""
    try:
        if not isinstance(value, str):
            raise TypeError
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise PydanticCustomError(
            "date_time", "Must be a date and time of ISO 8601, like 2022-10-04T03:46:43.433Z"
        ) from None


Moment = Annotated[datetime, PlainValidator(moment), WithJsonSchema({"type": "string", "format": "date-time"})]
