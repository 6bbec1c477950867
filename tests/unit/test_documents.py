"""The tests of the documents can fail, and leave no block out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration import test_documents
from tests.support.documents import PAGES, PICTURES, ROOT, Block, HttpMessage, Names, blocks_of, json_values

FIRST, SECOND = "01985c1e-0000-7000-8000-000000000001", "01985c1e-0000-7000-8000-000000000002"
TEXT = """
```sh
one
```

- item

  ```json events
  {
    "a": 1
  }
  ```

```sh not-run: needs a Docker engine
docker ps
```
"""


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page)]


def test_every_block_is_run_or_marked() -> None:
    blocks = all_blocks()
    unclear = [b.place for b in blocks if not (b.is_run_in_order or b.mark or b.language in PICTURES)]
    assert unclear == [], "run them or mark them, as tests/support/documents.py says"
    named = {target for block in blocks if block.mark for kind, target in [block.mark] if kind == "run-by"}
    assert [name for name in named if not callable(getattr(test_documents, name, None))] == []
    walked = {block.page for block in blocks if block.is_run_in_order}
    assert walked <= {ROOT / name for name in test_documents.WALKS}


def test_every_fence_is_seen() -> None:
    for page in PAGES:
        assert 2 * len(blocks_of(page)) == page.read_text().count("```"), page


def test_blocks() -> None:
    first, second, third = blocks_of(ROOT / "README.md", TEXT)
    assert (first.place, first.language, first.words, first.text) == ("README.md:2", "sh", "", "one\n")
    assert (second.line, second.words, second.text) == (8, "events", '{\n  "a": 1\n}\n')
    assert third.mark == ("not-run", "needs a Docker engine")
    assert [block.is_run_in_order for block in (first, second, third)] == [True, True, False]


@pytest.mark.parametrize("info", ["sh not-run:", "sh not-run", "sh run", "json", "json topic", "text", "", "yaml"])
def test_what_nothing_runs_is_told(info: str) -> None:
    (block,) = blocks_of(ROOT / "README.md", f"```{info}\nx\n```")
    assert not block.mark
    assert not block.is_run_in_order


def test_messages() -> None:
    request = HttpMessage.of("POST /api/x HTTP/1.1\nPrefer: wait=5\n\n[1]\n")
    assert (request.start, request.headers, request.body) == (
        ["POST", "/api/x", "HTTP/1.1"],
        {"Prefer": "wait=5"},
        "[1]",
    )
    assert not request.is_answer
    assert HttpMessage.of("HTTP/1.1 202 Accepted\n").is_answer


def test_ids_and_moments_may_differ() -> None:
    names = Names()
    real = FIRST.replace("1", "a")
    names.check(
        {"id": FIRST, "at": "2022-01-01T00:00:00.000Z", "x": "..."},
        {"id": real, "at": "2026-10-10T10:10:10.123Z", "x": "y"},
    )
    assert names.in_place(f"GET /{FIRST}") == f"GET /{real}"
    names.check({"instance": f"/a/{FIRST}"}, {"instance": f"/a/{real}"})
    with pytest.raises(AssertionError, match="/0"):
        names.check([FIRST], [SECOND])
    with pytest.raises(AssertionError, match="two names"):
        names.check([SECOND], [real])
    with pytest.raises(AssertionError, match="/1"):
        names.check([SECOND, 1], [SECOND, 2])
    assert SECOND not in names.real


@pytest.mark.parametrize(
    ("shown", "actual"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": 1, "b": 1}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": {}}, {"a": []}),
        ({"a": True}, {"a": 1}),
        ({"a": None}, {"a": ""}),
        ("text", "other"),
        ("...", None),
        (FIRST, "no id"),
        ("2022-01-01T00:00:00.000Z", "2022-01-01"),
    ],
)
def test_differences_are_found(shown: Any, actual: Any) -> None:
    with pytest.raises(AssertionError):
        Names().check(shown, actual)


def test_values_in_an_output() -> None:
    assert list(json_values('{"a": 1}[2] and {no} {"b": {}}\n')) == [{"a": 1}, [2], {"b": {}}]
