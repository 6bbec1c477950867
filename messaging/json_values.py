"""JSON as received: byte order marks, duplicate fields, and hints for values that aren't JSON."""

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final, NoReturn

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LONE_SURROGATE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
)


class ObjectWithDuplicates(dict[str, Any]):
    """An object with duplicate fields, spelled alike; `names` are theirs."""

    names: Collection[str] = ()


def without_bom(value: bytes) -> bytes:
    """The value without a byte order mark, which some systems write before UTF-8."""
    return value.removeprefix(_BYTE_ORDER_MARK)


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that have a value: omitted ones are None."""
    return {name: value for name, value in fields.items() if value is not None}


def parse_json(value: bytes) -> Any:
    """Parse JSON. Raises ValueError."""
    return _DECODER.decode(value.decode())


def parse_error(value: bytes, message: str) -> str:
    """The parser's message, with a hint if its position alone doesn't help."""
    if not value.strip():
        return "Invalid JSON: the value is empty"
    if value[:2] == b"\x1f\x8b":
        return f"{message}. It looks gzip-compressed: send it uncompressed"
    if b"\0" in value[:4]:
        return f"{message}. It looks like UTF-16 or UTF-32: send it in UTF-8"
    if _LONE_SURROGATE.search(value):
        return f"{message}. It contains half of a surrogate pair, as when an emoji is cut in two"
    return message


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    twice = ObjectWithDuplicates(fields)
    twice.names = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return twice


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object_of_pairs, parse_constant=_refuse_constant)
