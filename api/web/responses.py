"""JSON responses, rendered without another validation, as their content comes from our own code; and the conditions of
requests."""

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
    """A JSON body with problem details (RFC 9457)."""

    media_type = "application/problem+json"


class Row(BaseModel):
    """A JSON object of a response: its fields in camelCase, from the attributes of a domain object."""

    model_config = ConfigDict(from_attributes=True, alias_generator=AliasGenerator(serialization_alias=to_camel))

    @classmethod
    def of(cls, shown: object) -> dict[str, Any]:
        """The object as the API shows it."""
        return cls.model_validate(shown).model_dump(mode="json", by_alias=True)


def matches_etag(if_none_match: str, tag: str) -> bool:
    """True if `If-None-Match` has this tag, also weak, with a suffix or among others, or is `*`: RFC 9110, section
    13.1.2."""
    return tag in if_none_match or if_none_match.strip() == "*"
