"""The base of all message schemas: strictness, names, bounds."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, LiteralString

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from domain.addresses import bare_address, mailbox
from domain.invisible import is_blank
from domain.languages import language_tag
from domain.ratings import hundredths, rating_number
from domain.timestamps import in_utc

ID_LENGTH: Final = 128
NAME_LENGTH: Final = 128
ENTITY_NAME_LENGTH: Final = 1_024
TITLE_LENGTH: Final = 1_024
REVIEW_LENGTH: Final = 20_000
_ADDRESS_LENGTH: Final = 254
MAX_ITEMS: Final = 1_000
MOST_PARTITION: Final = 2**31 - 1
MOST_OFFSET: Final = 2**63 - 1

_NOT_A_MOMENT: Final = re.compile(
    r"\s*([+-]?([0-9_]+(\.[0-9_]*)?|\.[0-9_]+)([eE][+-]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2})\s*"
)
"""Matches days without a time, and numbers, which Pydantic reads as seconds or milliseconds since 1970, by length."""

NO_NULL: Final = r"^[^\x00]*$"
"""Pattern without the null character, which ends a string in too many systems downstream."""

IMAGE_ID_PATTERN: Final = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
"""Pattern of image ids, which are also names of files."""

LANGUAGE_PATTERN: Final = r"^([A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*)?$"

TEXT_HASH_PATTERN: Final = r"^[0-9A-Fa-f]{64}$"

PATTERN_MESSAGES: Final = {
    NO_NULL: "Must not contain the null character",
    IMAGE_ID_PATTERN: "Must be the id of an image, as its upload was answered with",
    LANGUAGE_PATTERN: "Must be a language, like en or en-US",
    TEXT_HASH_PATTERN: "Must be a SHA-256 in hexadecimal",
}
"""The error message for each pattern of the schemas."""

MOMENT_MESSAGE: Final = "Must be a date and time of ISO 8601, like 2022-10-04T03:46:43.433Z"


TextHash = Annotated[
    Annotated[str, Field(pattern=TEXT_HASH_PATTERN)],
    AfterValidator(str.lower),
    Field(
        description="SHA-256 in hexadecimal of `title`, a line feed and `review` in UTF-8, for the text that was seen"
    ),
]
"""The hash that identifies a text of a review."""


HIDDEN_INPUT: Final = ConfigDict(hide_input_in_errors=True)
"""The configuration of adapters of unions and lists of messages, which don't have that of their messages."""


class Message(BaseModel):
    """A strictly validated JSON value. Unknown fields are left out, and reported to the caller.

    The text of an error, which may be logged, doesn't contain the value.
    """

    model_config = ConfigDict(
        strict=True, alias_generator=to_camel, populate_by_name=True, extra="ignore", hide_input_in_errors=True
    )


class ClosedMessage(Message):
    """A message that configures or acts. Unknown fields would have no effect, so they are refused."""

    model_config = ConfigDict(extra="forbid")


def without_defaults(schema: dict[str, Any]) -> None:
    """Remove the defaults from the schema of a message whose omitted fields keep their values: clients generated from
    the schema would send them, and so reset fields that nobody named."""
    for field in schema["properties"].values():
        field.pop("default", None)


class PartialMessage(ClosedMessage):
    """A message that changes the fields that it contains; omitted fields keep their values."""

    model_config = ConfigDict(json_schema_extra=without_defaults)


@dataclass(frozen=True, slots=True)
class _NonBlank(AfterValidator):
    """Refuses a blank text. The schema can only say that it isn't empty."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "minLength": 1}


@dataclass(frozen=True, slots=True)
class AtMost:
    """Limits a `tuple[X, ...]` or a dict to this many items, and refuses more with the single error `too_long`.

    `Field(max_length=...)` counts only the valid items of a tuple, and those of a dict after validating all: a value
    with 50,000 invalid items has 50,000 errors, which take a second to list.
    """

    items: int

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Reads a tuple as a list, of which Pydantic counts all items, and counts the items of a dict first."""
        schema = handler(source)
        if schema["type"] == "dict":
            return core_schema.no_info_before_validator_function(self._check_size, schema)
        if schema["type"] != "tuple":
            raise TypeError(f"{source} is neither a tuple nor a dict")
        # Not strict: our own code passes tuples. The second schema is only for writing.
        items = core_schema.list_schema(schema["items_schema"][0], max_length=self.items, strict=False)
        as_tuple = core_schema.no_info_after_validator_function(tuple, items)
        return core_schema.lax_or_strict_schema(as_tuple, schema, strict=False)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema of the array or object, with its limit."""
        shown = handler(schema)
        return shown if shown["type"] == "array" else {**shown, "maxProperties": self.items}

    def _check_size(self, value: object) -> object:
        if isinstance(value, Mapping) and len(value) > self.items:
            context = {"field_type": "Dictionary", "max_length": self.items, "actual_length": len(value)}
            raise PydanticKnownError("too_long", context)
        return value


def _check_not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "Must not be blank")
    return value


def _check_readable(value: str) -> str:
    return _check_not_blank("" if is_blank(value) else value)


def _check_date_and_time(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise PydanticKnownError("datetime_type")
    if isinstance(value, str) and _NOT_A_MOMENT.fullmatch(value):
        raise PydanticCustomError("date_time", MOMENT_MESSAGE)
    return value


def _in_utc(moment: datetime) -> datetime:
    try:
        return in_utc(moment)
    except OverflowError:
        raise PydanticCustomError("date_range", "Must be in the years 1 to 9999, in UTC") from None


def without_blank(stored: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The fields without those of these names that are blank: earlier versions accepted and stored such ids."""
    return {name: value for name, value in stored.items() if name not in names or str(value).strip()}


def _check_decimals(value: float) -> float:
    if not value.is_integer() and rating_number(hundredths(value)) != value:
        raise PydanticCustomError("too_many_decimals", "Must have at most two decimals")
    return value


def _check_true(value: object) -> object:
    """The value if it is true; 1 equals it, but isn't."""
    if value is not True:
        raise PydanticKnownError("literal_error", {"expected": "true"})
    return value


def _check_address_length(address: str) -> str:
    if len(address) > _ADDRESS_LENGTH:
        reason = f"Must have at most {_ADDRESS_LENGTH} characters, its domain in punycode"
        raise PydanticCustomError("invalid_address", "{reason}", {"reason": reason})
    return address


def usable(check: Callable[[str], object], code: LiteralString) -> AfterValidator:
    """A validator that refuses a text for which `check` raises ValueError, with this code and the error's message."""

    def checked(text: str) -> str:
        try:
            check(text)
        except ValueError as error:
            raise PydanticCustomError(code, "{reason}", {"reason": str(error)}) from error
        return text

    return AfterValidator(checked)


NotBlank = _NonBlank(_check_not_blank)
EMPTY_IS_MISSING: Final = BeforeValidator(lambda value: None if value == "" else value)
"""An empty string counts as null."""
Readable = _NonBlank(_check_readable)
"""A text with a visible character, not only blanks or zero width. Not for ids: stored ones must be found."""
OnlyTrue = Annotated[Literal[True], BeforeValidator(_check_true)]
NoNull = Annotated[str, StringConstraints(pattern=NO_NULL)]
Id = Annotated[str, StringConstraints(max_length=ID_LENGTH, pattern=NO_NULL), NotBlank]
Moment = Annotated[
    # The output of a BeforeValidator isn't JSON any more, for which alone strict mode would accept strings.
    Annotated[datetime, Field(strict=False)],
    BeforeValidator(_check_date_and_time),
    AfterValidator(_in_utc),
]
ShownMoment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""A time in the format of the domain's `timestamp`."""
ShownRating = Annotated[int | float, WithJsonSchema({"type": "number"})]
"""A rating as the domain's `rating_number`; the schema is one type, as generators make a class of a choice of two."""
Name = Annotated[str, StringConstraints(max_length=NAME_LENGTH, pattern=NO_NULL)]
OptionalId = Annotated[
    Annotated[str, StringConstraints(max_length=ID_LENGTH, pattern=NO_NULL)] | None,
    AfterValidator(lambda value: _check_not_blank(value) if value else None),
]
StoredId = Annotated[
    str,
    StringConstraints(max_length=ID_LENGTH, pattern=NO_NULL),
    _NonBlank(lambda value: value or _check_not_blank(value)),
]
"""The id of an existing review or return: earlier versions accepted blank ones, which can still be deleted."""
Stores = Annotated[
    Annotated[list[Id], Field(max_length=MAX_ITEMS)] | None,
    Field(description="Stores that the caller is bound to: items of other stores are refused. Missing: not bound"),
]
TextHashes = Annotated[
    Annotated[dict[str, TextHash], AtMost(MAX_ITEMS)] | None,
    Field(description="Hashes of the texts that the sender saw, by review id; a review with another text is refused"),
]
ImageId = Annotated[str, StringConstraints(pattern=IMAGE_ID_PATTERN)]
EntityName = Annotated[str, StringConstraints(max_length=ENTITY_NAME_LENGTH, pattern=NO_NULL)]
Title = Annotated[str, StringConstraints(max_length=TITLE_LENGTH, pattern=NO_NULL)]
ReviewText = Annotated[str, StringConstraints(max_length=REVIEW_LENGTH, pattern=NO_NULL), Readable]
ReviewTokenText = Annotated[
    Annotated[str, StringConstraints(max_length=8_192, pattern=NO_NULL)] | None, EMPTY_IS_MISSING
]
Language = Annotated[
    Annotated[str, StringConstraints(max_length=35, pattern=LANGUAGE_PATTERN)] | None,
    AfterValidator(lambda language: language_tag(language) if language else None),
]
LanguageTag = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=35, pattern=LANGUAGE_PATTERN)],
    AfterValidator(language_tag),
]
MailAddress = Annotated[
    Annotated[
        str,
        StringConstraints(max_length=_ADDRESS_LENGTH, pattern=NO_NULL),
        usable(mailbox, "invalid_address"),
        AfterValidator(bare_address),
        AfterValidator(_check_address_length),
    ]
    | None,
    EMPTY_IS_MISSING,
]
Note = Annotated[str, StringConstraints(max_length=1_024, pattern=NO_NULL)]
Phrase = Annotated[str, StringConstraints(max_length=1_024, pattern=NO_NULL)]
ReturnStatusName = Annotated[str, StringConstraints(max_length=64, pattern=NO_NULL), NotBlank]
Rating = Annotated[float, Field(ge=1, le=5, allow_inf_nan=False), AfterValidator(_check_decimals)]
PartitionNumber = Annotated[int, Field(ge=0, le=MOST_PARTITION)]
Offset = Annotated[int, Field(ge=0, le=MOST_OFFSET)]
Milliseconds = Annotated[int, Field(ge=-62_135_596_800_000, le=253_402_300_799_999)]
"""Milliseconds since 1970, in the years 1 to 9999."""
