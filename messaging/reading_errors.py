"""Errors in incoming JSON: their places, codes and sentences."""

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from messaging.reading_shapes import NO_SHAPE, MessageShape, folded_name, of_one_type
from messaging.schemas import MOMENT_MESSAGE, PATTERN_MESSAGES

INVALID_JSON: Final = "json-invalid"
DUPLICATE_FIELD: Final = "duplicate-field"
UNKNOWN_FIELD: Final = "unknown-field"

LONGEST_NAME: Final = 64
"""Maximum characters of a name that an error repeats."""

_PATTERN_MISMATCH: Final = "string_pattern_mismatch"
_PLAIN_MESSAGES: Final = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "Must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "Must be a number"),
    "string_type": "Must be a text",
    **dict.fromkeys(("bool_type", "bool_parsing"), "Must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "Must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "Must be an object"),
}
"""Messages by the type of the error, where Pydantic's own is about its types."""

_SHOULD: Final = re.compile(r"^(Input|String|List|Tuple|Dictionary) should ")


class InputError(NamedTuple):
    """One error in a value: its place (RFC 6901), a stable code, and a sentence."""

    pointer: str
    code: str
    message: str


class InvalidContentError(ValueError):
    """A value that isn't JSON, or doesn't match its type. `total`: the number of errors, if not all are listed."""

    def __init__(self, errors: Sequence[InputError], total: int = 0) -> None:
        self.errors = errors
        self.total = max(total, len(errors))
        shown = "; ".join(": ".join(filter(None, (each.pointer, each.message))) for each in errors[:5])
        super().__init__(shown + (f"; and {self.total - 5} more" if self.total > 5 else ""))

    @property
    def is_malformed(self) -> bool:
        """True if it isn't JSON at all."""
        return self.errors[0].code == INVALID_JSON


def invalid_content(error: ValidationError, shape: MessageShape = NO_SHAPE, value: Any = None) -> InvalidContentError:
    """The error for a failed validation of a value with this shape, without the input, which may be personal."""
    details = of_one_type(error.errors(include_url=False, include_input=False), shape, value)
    return InvalidContentError([input_error(detail) for detail in details])


def input_error(detail: Mapping[str, Any]) -> InputError:
    """The error for a detail of Pydantic."""
    return InputError(pointer(detail["loc"]), str(detail["type"]).replace("_", "-"), error_message(detail))


def error_message(detail: Mapping[str, Any]) -> str:
    """The sentence for an error of Pydantic: for a pattern its requirement, for a rule of ours only the rule's text,
    else Pydantic's own, in plain words."""
    if detail["type"] == _PATTERN_MISMATCH:
        return PATTERN_MESSAGES.get(detail["ctx"]["pattern"], "Has characters that aren't allowed here")
    if detail["type"] in _PLAIN_MESSAGES:
        return _PLAIN_MESSAGES[detail["type"]]
    if detail["type"].startswith("datetime"):
        _, _, reason = detail["msg"].partition(", ")
        return f"{MOMENT_MESSAGE} ({reason})" if reason else MOMENT_MESSAGE
    message = _SHOULD.sub("Must ", str(detail["msg"]).removeprefix("Value error, ")).replace(" after validation", "")
    return message.replace("less than or equal to", "at most").replace("greater than or equal to", "at least")


def pointer(location: Sequence[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a place in a value."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in location)


def nearest(name: str, known: Collection[str]) -> str:
    """A sentence that suggests the known name closest to this one, or lists all of them if none is close."""
    of_folded = {folded_name(each): each for each in known}
    close = get_close_matches(folded_name(name[:LONGEST_NAME]), of_folded, n=1)
    if close:
        return f"Did you mean {of_folded[close[0]]}?"
    return f"Use one of: {', '.join(sorted(known))}" if known else "None is accepted here"
