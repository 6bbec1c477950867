"""Hostile and broken input: values for any field, bodies for any endpoint, and messages made of both."""

import json
import random
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.support.interface import BODIES


def nested(depth: int) -> Any:
    """Lists nested `depth` deep around an empty list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -1, -0.0, 1e308, 5e-324, 2**31, 2**63, 2**64, -(2**63) - 1, 10**100, 4.999999999999),
    *("", " ", "\x00", "\ud800", "a\x00b", "\u202e\u2066", "\ufeff", "\u0130" * 300, "e\u0301" * 300, "\ufdfa" * 200),
    *("x" * 128, "x" * 129, "x" * 20_001, "\U0001f3f3\ufe0f\u200d\U0001f308" * 40, "null", "NaN", "-Infinity"),
    *("$where", "$gt", "a.b.$c", "__proto__", "(a+)+$" * 50, "(?:" * 400, ".*" * 400, "[" * 500, "\\" * 500, "%00"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-14:00", "2026-02-30T00:00:00Z", "1e400", "٣"),
    *({}, {"$gt": ""}, {"$ne": None}, {"$where": "sleep(1000)"}, {"$regex": "(a+)+$"}, {"a.b": 1, "$set": {}}),
    *([], [[]], ["x"] * 1_001, [None] * 100, [{"$gt": ""}], nested(90), {"a": nested(90)}),
]
"""Hostile values for any field of a JSON document."""

RAW: Final[list[bytes]] = [
    *(b"", b" ", b"null", b"true", b"0", b'""', b"[]", b"{}", b"[null]", b"[[]]", b"[{}]", b"{", b"[", b'"', b"\x00"),
    *(b"NaN", b"[NaN]", b"Infinity", b"1e999", b"-", b"\xff\xfe", b"\xc3\x28", b"\xef\xbb\xbf[]", b"\x1f\x8b\x08\x00"),
    *(b"[" * 100_000, b'{"a":' * 50_000, b"[" * 100_000 + b"]" * 100_000, b"9" * 100_000, b'"' + b"x" * 900_000 + b'"'),
    *(b'{"ids":["x"],"ids":{"$gt":""}}', b'[{"rating":NaN}]', b'[{"rating":1e999}]', b'{"take":1e400}', b"\\ud800"),
    b'{"action":"approve","ids":[' + b'"x",' * 5_000 + b'"x"]}',
]
"""Hostile bodies; most aren't valid JSON."""

PATH_PARAMETERS: Final = {
    "storeId": "s",
    "entityType": "Product",
    "entityId": "e",
    "id": "r",
    "name": "OrderReviewRequest",
}
"""Values of path parameters."""

REQUESTS: Final[list[tuple[str, str, Any]]] = [
    (*operation.format(**PATH_PARAMETERS).split(" "), body) for operation, body in BODIES.items()
]
"""Valid requests: method, path, body."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within a value, including the value itself."""
    yield path
    if isinstance(value, dict):
        for name, item in value.items():
            yield from places(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """A copy of the value with another value at the path."""
    if not path:
        return by
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], by)
    return copy


def mutated(rng: random.Random, value: Any, found: list[Any]) -> bytes:
    """The value as JSON with up to five replaced parts, at times truncated or with one byte changed; or a body of
    `RAW`."""
    if rng.random() < 0.03:
        return rng.choice(RAW)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 5])):
        value = replaced(value, rng.choice(list(places(value))), rng.choice(rng.choice([VALUES, found])))
    text = json.dumps(value).encode()
    if rng.random() < 0.05:
        text = text[: rng.randrange(len(text) + 1)]
    elif text and rng.random() < 0.05:
        at = rng.randrange(len(text))
        text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
    return text


def hypothesis_values(number: int, count: int) -> list[Any]:
    """JSON values that Hypothesis generates from a seed."""
    found: list[Any] = []
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.datetimes().map(str)
    names = st.text() | st.sampled_from(["id", "ids", "$gt", "$where", "rating", "EntityId", "status"])
    values = st.recursive(scalars, lambda v: st.lists(v) | st.dictionaries(names, v), max_leaves=12)

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(values)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found
