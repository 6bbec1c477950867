"""The blocks of README and docs, and their comparison with reality.

The first word of a block's info string is its language, the only one that GitHub uses. The rest is for the tests:

- `sh`, `http`, `json <topic> <key>`: run in the order of the page (tests/integration/test_documents.py);
- `service`: the command that starts the service of the tests;
- `output`: the output of the block before it, `json` or `text`;
- `run-by: <test>`: the test of that module runs the block;
- `not-run: <reason>`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from messaging.topics import Topic

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PICTURES: Final = frozenset({"mermaid"})
"""Languages that can't be run."""

_FENCE: Final = re.compile(r"^( *)```(\S*) *(.*?)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_MARK: Final = re.compile(r"(not-run|run-by): *(\S.*)")
_ANYTHING: Final = "..."
_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMES: Final = (re.compile(_UUID), re.compile(r"RET\d{6}-\d{5}"))
"""Ids and numbers that differ between runs but are consistent within one."""

_MILLISECONDS: Final = range(10**12, 10**13)
"""Timestamps from 2001 to 2286, which differ between runs."""

_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    words: str
    text: str

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def mark(self) -> tuple[str, str] | None:
        """`not-run` with the reason, or `run-by` with the test; None without either."""
        found = _MARK.fullmatch(self.words)
        return (found[1], found[2]) if found else None

    @property
    def is_run_in_order(self) -> bool:
        """True if the walk through its page runs or compares it."""
        if self.mark:
            return False
        match self.language:
            case "sh":
                return self.words in ("", "service")
            case "http":
                return not self.words
            case "json":
                return self.words == "output" or self.words.partition(" ")[0] in set(Topic)
            case _:
                return self.words == "output"


def blocks_of(page: Path, text: str | None = None) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = page.read_text() if text is None else text
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[2], found[3], _dedented(found[4], len(found[1])))
        for found in _FENCE.finditer(text)
    ]


def _dedented(text: str, indent: int) -> str:
    return "".join(line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in text.splitlines(keepends=True))


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A request or response as shown on a page."""

    start: list[str]
    headers: dict[str, str]
    body: str

    @classmethod
    def of(cls, text: str) -> "HttpMessage":
        """Parse the text of an `http` block."""
        head, _, body = text.partition("\n\n")
        start, *lines = head.strip().splitlines()
        headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return cls(start.split(), headers, body.strip())

    @property
    def is_answer(self) -> bool:
        """True for a response, False for a request."""
        return self.start[0].startswith("HTTP/")


@dataclass(slots=True)
class Names:
    """The real id for each id shown on a page."""

    real: dict[str, str] = field(default_factory=dict)

    def in_place(self, text: str) -> str:
        """The text with real ids."""
        for shown, real in self.real.items():
            text = text.replace(shown, real)
        return text

    def check(self, shown: Any, actual: Any) -> None:
        """Compare JSON: keys, sizes and values, except ids, return numbers and timestamps, which differ between runs.

        Raises AssertionError with the place of the first difference; then no ids are learnt.
        """
        learnt = Names(dict(self.real))
        learnt._check(shown, actual, "")
        self.real = learnt.real

    def _check(self, shown: Any, actual: Any, place: str) -> None:
        match shown:
            case dict():
                assert isinstance(actual, dict), f"{place}: {actual!r} isn't an object"
                assert shown.keys() == actual.keys(), f"{place}: {sorted(shown)} != {sorted(actual)}"
                for key, value in shown.items():
                    self._check(value, actual[key], f"{place}/{key}")
            case list():
                assert isinstance(actual, list), f"{place}: {actual!r} isn't an array"
                assert len(shown) == len(actual), f"{place}: {len(shown)} != {len(actual)} items: {actual!r}"
                for index, value in enumerate(shown):
                    self._check(value, actual[index], f"{place}/{index}")
            case str() if isinstance(actual, str):
                self._check_text(shown, actual, place)
            case int() if shown in _MILLISECONDS and actual in _MILLISECONDS:
                pass
            case _:
                assert shown == actual, f"{place}: {shown!r} != {actual!r}"
                assert isinstance(shown, bool) == isinstance(actual, bool), f"{place}: {shown!r} != {actual!r}"

    def _check_text(self, shown: str, actual: str, place: str) -> None:
        if shown == _ANYTHING or (_MOMENT.fullmatch(shown) and _MOMENT.fullmatch(actual)):
            return
        for form in _NAMES:
            if form.fullmatch(shown) and form.fullmatch(actual):
                assert self.real.setdefault(shown, actual) == actual, f"{place}: {shown} was already {self.real[shown]}"
                assert list(self.real.values()).count(actual) == 1, f"{place}: {actual} has two names"
                return
        assert self.in_place(shown) == actual, f"{place}: {shown!r} != {actual!r}"


def json_values(text: str) -> Iterator[Any]:
    """All JSON objects and arrays in an output, in order."""
    decoder, at = json.JSONDecoder(), 0
    while found := re.compile(r"[\[{]").search(text, at):
        try:
            value, at = decoder.raw_decode(text, found.start())
        except json.JSONDecodeError:
            at = found.end()
        else:
            yield value
