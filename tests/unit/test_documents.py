"""The documentation's links and names are right, and its tests can fail and skip no block."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from domain.moderation_rules import RuleKind, RuleOutcome
from domain.permissions import Permission
from domain.reviews import CONTENT_FIELDS, ModerationAction, ReviewStatus
from domain.reviews_facts import ReasonCode
from messaging.asyncapi import CHANNELS
from messaging.topics import Topic
from plaudit.config import Settings
from plaudit.tools.imports.mapping import FIELDS
from storage.audit import AuditAction, AuditKind
from tests.integration import test_documents
from tests.support.documents import PAGES, PICTURES, ROOT, Block, HttpMessage, Names, blocks_of, json_values
from tests.support.rooms import ROOMS

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


LINKED: Final = [*PAGES, ROOT / "SECURITY.md", ROOT / "benchmarks" / "results" / "latest.md"]
ARCHITECTURE: Final = ROOT / "docs" / "architecture.md"


class Link(NamedTuple):
    """A link of a page: its text, its target file or folder, and the heading there, "" for the top."""

    text: str
    target: Path
    heading: str


def links_of(page: Path) -> list[Link]:
    """The links of a page within the repository, including pictures."""
    links = []
    for text, address in re.findall(r"\[([^\[\]]*)\]\(([^()\s]+)\)", page.read_text()):
        parts = urlsplit(address)
        if not parts.scheme:
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            links.append(Link(text, target, parts.fragment))
    return links


def headings_of(page: Path) -> set[str]:
    """The anchors that Git hosts generate for the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """All modules of the product with their syntax trees."""
    for path in sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        yield path, ast.parse(path.read_text())


def names_in(tree: ast.AST) -> set[str]:
    """The names that a module defines: functions, classes, methods as `Class.method`, and constants."""
    names = set()
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.ClassDef():
                names |= {node.name, *(f"{node.name}.{name}" for name in names_in(node))}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
            case _:
                pass
    return names


def test_link_targets_exist() -> None:
    dead = [
        f"{page.relative_to(ROOT)}: {link.text}"
        for page in LINKED
        for link in links_of(page)
        if not link.target.exists() or (link.heading and link.heading not in headings_of(link.target))
    ]
    assert dead == []


def test_names_linked_by_the_architecture_exist() -> None:
    links = [link for link in links_of(ARCHITECTURE) if re.fullmatch(r"`[\w.]+`", link.text)]
    assert links
    named = {(link.text.strip("`"), link.target) for link in links if link.target.suffix == ".py"}
    gone = [f"{name} in {file}" for name, file in named if name not in names_in(ast.parse(file.read_text()))]
    assert gone == []


def test_architecture_lists_the_layers_of_the_import_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = [each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    rooms, inside = [[re.findall(r"\w+", layer) for layer in contract["layers"]] for contract in contracts]
    (layers,) = re.findall(r"From the top: (.+?)\.\s", ARCHITECTURE.read_text(), re.DOTALL)
    assert [re.findall(r"`(\w+)`", layer) for layer in layers.split(";")] == rooms
    (layers,) = re.findall(r"Inside `plaudit`: (.+?); then", ARCHITECTURE.read_text(), re.DOTALL)
    assert [re.findall(r"`(\w+)`", layer) for layer in layers.split(";")] == inside[1:-2]


def test_unreleased_changes_have_a_new_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if changelog.partition("## [Unreleased]\n")[2].partition("\n## [")[0].strip():
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        assert version not in re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)


def test_architecture_links_every_package_and_stored_feature() -> None:
    packages = {path.parent for room in (*ROOMS, "tests", "benchmarks") for path in (ROOT / room).rglob("__init__.py")}
    stored = {path for path in ROOT.glob("storage/*/*.py") if path.stem != "__init__"}
    on_the_map = {link.target for link in links_of(ARCHITECTURE)}
    assert sorted(str(path.relative_to(ROOT)) for path in (packages | stored) - on_the_map) == []


def test_documents_name_the_fields_of_imports_and_edits() -> None:
    tools, http = (" ".join((ROOT / "docs" / name).read_text().split()) for name in ("tools.md", "http.md"))
    assert f"Fields: `{', '.join(FIELDS)}`;" in tools
    (changeable,) = re.findall(r"To edit a review, [^.]+\. ([^.]+?) can change;", http)
    assert sorted(map(str.lower, re.findall(r"`(\w+)`", changeable))) == sorted(map(str.lower, CONTENT_FIELDS))


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("docs/kafka.md", CHANNELS[Topic.EVENTS].messages),
        ("docs/kafka.md", ModerationAction),
        *(("docs/http.md", each) for each in (AuditAction, AuditKind, ReasonCode, RuleKind, RuleOutcome)),
        ("docs/http.md", [status.label for status in ReviewStatus]),
        ("docs/security.md", Permission),
        ("console/templates/moderation_rules.html", RuleKind),
    ],
)
def test_page_has_every_word_of_a_list(page: str, words: Iterable[str]) -> None:
    text = (ROOT / page).read_text()
    assert [word for word in words if not re.search(f'[`">]{word}[`"<]', text)] == []


def test_documented_mailer_group_has_the_measured_lag() -> None:
    section = (ROOT / "docs" / "kafka.md").read_text().partition("## A mailer of your own")[2].partition("##")[0]
    topic = Settings().topics.name(Topic.MAIL_COMMANDS)
    assert f"your consumer of `{topic}` read in the group `{topic}`" in section
    assert "`PLAUDIT_KAFKA__TOPIC_PREFIX`" in section


class Raised(NamedTuple):
    """An error class, its base class, and its module."""

    name: str
    parent: str
    module: str


@pytest.mark.long
def test_every_error_class_is_in_the_tree() -> None:
    classes = [
        Raised(node.name, ast.unparse(base).rpartition(".")[2], str(path.relative_to(ROOT)))
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    ]
    # Errors of Python and of libraries are recognised by their names.
    errors = {each for each in classes if each.parent.endswith(("Error", "Exception"))}
    (tree,) = [block.text for block in blocks_of(ARCHITECTURE) if block.words == "not-run: a tree"]
    shown: set[Raised] = set()
    above: list[str] = []
    for line in tree.splitlines():
        name, *place = line.split()[:2]
        depth = (len(line) - len(line.lstrip())) // 2
        above[depth:] = [name]
        if place:
            shown.add(Raised(name, above[depth - 1], place[0]))
    assert shown == errors


def test_tests_named_by_security_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    files = {
        file: ROOT / "tests" / file for file in re.findall(r"`((?:unit|integration|chaos|devservers)/\w+\.py)", text)
    }
    assert [file for file, path in files.items() if not path.is_file()] == []
    tests = {file: names_in(ast.parse(path.read_text())) for file, path in files.items()}
    assert [f"{file}::{name}" for file, name in re.findall(r"`(\S+)::(\w+)`", text) if name not in tests[file]] == []
    table = text.partition("\n## Threats\n")[2].partition("\n\n#")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ") and not row.startswith("| Who ")]
    assert len(rows) > 30
    assert [row for row in rows if "/test_" not in row.split(" | ")[-1]] == []


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


def test_every_fence_is_parsed() -> None:
    for page in PAGES:
        assert 2 * len(blocks_of(page)) == page.read_text().count("```"), page


def test_parsing_of_blocks() -> None:
    first, second, third = blocks_of(ROOT / "README.md", TEXT)
    assert (first.place, first.language, first.words, first.text) == ("README.md:2", "sh", "", "one\n")
    assert (second.line, second.words, second.text) == (8, "events", '{\n  "a": 1\n}\n')
    assert third.mark == ("not-run", "needs a Docker engine")
    assert [block.is_run_in_order for block in (first, second, third)] == [True, True, False]


@pytest.mark.parametrize("info", ["sh not-run:", "sh not-run", "sh run", "json", "json topic", "text", "", "yaml"])
def test_unmarked_blocks_are_not_run(info: str) -> None:
    (block,) = blocks_of(ROOT / "README.md", f"```{info}\nx\n```")
    assert not block.mark
    assert not block.is_run_in_order


def test_parsing_of_http_messages() -> None:
    request = HttpMessage.of("POST /api/x HTTP/1.1\nPrefer: wait=5\n\n[1]\n")
    assert (request.start, request.headers, request.body) == (
        ["POST", "/api/x", "HTTP/1.1"],
        {"Prefer": "wait=5"},
        "[1]",
    )
    assert not request.is_answer
    assert HttpMessage.of("HTTP/1.1 202 Accepted\n").is_answer


def test_ids_and_timestamps_may_differ() -> None:
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


def test_json_values_in_an_output() -> None:
    assert list(json_values('{"a": 1}[2] and {no} {"b": {}}\n')) == [{"a": 1}, [2], {"b": {}}]
