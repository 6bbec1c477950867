"""JSON answers, rendered once and not checked a second time: what is in them comes from our own code."""

from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import AliasGenerator, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from domain.timestamps import timestamp
from messaging.schemas import ShownMoment

Timestamp = Annotated[datetime, PlainSerializer(timestamp, return_type=ShownMoment)]


class JsonResponse(Response):
    """A JSON body from plain dicts, lists, strings and numbers."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return orjson.dumps(content)


class ProblemResponse(JsonResponse):
    """A body of RFC 9457."""

    media_type = "application/problem+json"


class Row(BaseModel):
    """A JSON object of an answer: its fields in camelCase, from the attributes of an object of the domain."""

    model_config = ConfigDict(from_attributes=True, alias_generator=AliasGenerator(serialization_alias=to_camel))

    @classmethod
    def of(cls, shown: object) -> dict[str, Any]:
        """The object as the interface shows it."""
        return cls.model_validate(shown).model_dump(mode="json", by_alias=True)
