"""Code layout: no MongoDB document leaves `storage/`, and files, functions and handlers stay short."""

import ast
import inspect
import json
from asyncio import Task
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from storage.database import Document
from tests.support.rooms import ROOMS as PRODUCT

ROOT = Path(__file__).parents[2]
ROOMS = ("api", "console", "storefront", "consumers", "scheduler", "plaudit")
# Connections have the document type as a parameter; the result of a task is not read.
OPAQUE = (AsyncDatabase, AsyncMongoClient, Task)


@cache
def statements(file: Path) -> list[ast.stmt]:
    """All statements in a file, at any depth. Their expressions, most of the tree, are not visited."""
    found, inner = list[ast.stmt](), [ast.parse(file.read_text()).body]
    while inner:
        body = inner.pop()
        found += body
        for each in body:
            blocks = [each, *getattr(each, "handlers", ()), *getattr(each, "cases", ())]
            inner += [getattr(block, name, []) for block in blocks for name in ("body", "orelse", "finalbody")]
    return found


def reachable_names() -> list[tuple[str, str]]:
    """Each module and name of `storage` that another room imports, and each class, since results may contain it."""
    found = set()
    # The shapes of documents are internal to `storage` unless another room imports them.
    own = {"storage.shapes"}
    for room in (*ROOMS, "storage"):
        for file in (ROOT / room).rglob("*.py"):
            for node in statements(file):
                if isinstance(node, ast.ImportFrom) and room != "storage" and (node.module or "").startswith("storage"):
                    found |= {(str(node.module), alias.name) for alias in node.names}
                elif isinstance(node, ast.ClassDef) and room == "storage" and not node.name.startswith("_"):
                    module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                    found |= {(module, node.name)} if module not in own else set()
    return sorted(found)


def document_types(hint: Any) -> Iterator[str]:
    """The parts of a type that could hold a document: `Any` or a mapping to it, at any depth."""
    if hint is Any or hint in (dict, Mapping, object):
        yield repr(hint)
    elif isinstance(hint, list):  # the parameters of a Callable
        for part in hint:
            yield from document_types(part)
    elif get_origin(hint) not in OPAQUE:
        for part in get_args(hint):
            yield from document_types(part)


def signatures(name: str, thing: object) -> Iterator[tuple[str, Any]]:
    """The types of results, parameters and fields, each with its place."""
    if inspect.isclass(thing):
        if is_dataclass(thing):
            hints = get_type_hints(thing)
            yield from ((f"{name}.{field.name}", hints[field.name]) for field in fields(thing))
        elif issubclass(thing, tuple):
            yield from ((f"{name}.{field}", hint) for field, hint in get_type_hints(thing).items())
        for attribute, member in vars(thing).items():
            if isinstance(member, property):
                member = member.fget
            elif isinstance(member, classmethod | staticmethod):
                member = member.__func__
            if not attribute.startswith("_") and inspect.isfunction(member):
                yield from signatures(f"{name}.{attribute}", member)
    elif inspect.isfunction(thing):
        yield from ((f"{name}({place})", hint) for place, hint in get_type_hints(thing).items())
    elif inspect.ismodule(thing):
        for attribute, member in vars(thing).items():
            if not attribute.startswith("_") and getattr(member, "__module__", None) == thing.__name__:
                yield from signatures(f"{name}.{attribute}", member)


def leaks(name: str, thing: object) -> list[str]:
    """Places whose types let a document out."""
    return [f"{place}: {leak}" for place, hint in signatures(name, thing) for leak in document_types(hint)]


def test_storage_exposes_no_documents() -> None:
    found = reachable_names()
    assert len(found) > 100
    for module, name in found:
        assert name != "Document", module
        parent = import_module(module)
        thing = getattr(parent, name, None) or import_module(f"{module}.{name}")
        if getattr(thing, "__module__", "storage").startswith("storage"):
            assert leaks(f"{module}.{name}", thing) == []


async def as_result() -> Document | None:
    return None


async def as_results() -> list[dict[str, Any]]:
    return []


async def as_parameter(fields: Mapping[str, Any]) -> None:
    raise NotImplementedError(fields)


async def as_callback(work: Callable[[Document], None]) -> None:
    raise NotImplementedError(work)


async def as_anything() -> Sequence[Any]:
    return []


@dataclass
class AsField:
    found: Mapping[str, Any]


class AsPart(NamedTuple):
    found: Mapping[str, Any]


class AsClassMethod:
    @classmethod
    def of(cls, found: Mapping[str, Any]) -> None:
        raise NotImplementedError(found)


class AsMethod:
    @property
    def found(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(
    "leaky",
    [as_result, as_results, as_parameter, as_callback, as_anything, AsField, AsPart, AsClassMethod, AsMethod],
    ids=lambda each: each.__name__,
)
def test_leaking_document_is_found(leaky: object) -> None:
    assert leaks("here", leaky)


MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 60
MOST_LINES_OF_A_HANDLER = 25
MOST_CHARACTERS_OF_A_LINE = 120
# Shops embed it, and everything shown at once comes in one file; parts loaded later have their own modules.
LONGER_SCRIPTS = {"storefront/static/plaudit-reviews.js"}


@pytest.mark.parametrize("room", PRODUCT)
def test_files_functions_and_handlers_stay_short(room: str) -> None:
    too_long = []
    for file in sorted((ROOT / room).rglob("*.py")):
        lines = len(file.read_text().splitlines())
        if lines > MOST_LINES_OF_A_FILE:
            too_long.append(f"{file.relative_to(ROOT)}: {lines}")
        for node in statements(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_handler = room == "consumers" and node.name == "__call__"
                most = MOST_LINES_OF_A_HANDLER if is_handler else MOST_LINES_OF_A_FUNCTION
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > most:
                    too_long.append(f"{file.relative_to(ROOT)}, {node.name}: {lines}")
    assert not too_long


def test_no_part_of_a_text_is_a_statement_of_its_own() -> None:
    """Outside parentheses the second line of a wrapped text is a statement without effect, and the text is cut off."""
    lost = []
    for file in sorted(path for room in (*PRODUCT, "benchmarks", "tests") for path in (ROOT / room).rglob("*.py")):
        lines = file.read_text().splitlines()
        for node in statements(file):
            match node:
                case ast.Expr(value=ast.Constant(value=str()) | ast.JoinedStr()):
                    if not lines[node.lineno - 1].lstrip().startswith('"""'):
                        lost.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert not lost


def own_files(*suffixes: str) -> dict[str, list[str]]:
    """The lines of each file of the product with one of these suffixes, by its path; without vendored files."""
    vendored = {name for path in ROOT.glob("*/static/vendored.json") for name in json.loads(path.read_text())}
    return {
        path.relative_to(ROOT).as_posix(): path.read_text().splitlines()
        for room in PRODUCT
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in suffixes and path.name not in vendored
    }


def test_own_scripts_stay_short() -> None:
    own = own_files(".js")
    assert "console/static/console.js" in own
    assert {path for path, lines in own.items() if len(lines) > MOST_LINES_OF_A_FILE} == LONGER_SCRIPTS


def test_lines_of_pages_stay_short() -> None:
    """Those of templates, scripts and style sheets; ruff checks those of Python."""
    own = own_files(".html", ".js", ".ts", ".css")
    assert {"console/templates/queue.html", "console/static/console.css", "storefront/static/types.d.ts"} <= own.keys()
    too_long = [
        f"{path}:{number}: {len(line)}"
        for path, lines in own.items()
        for number, line in enumerate(lines, 1)
        if len(line) > MOST_CHARACTERS_OF_A_LINE
    ]
    assert not too_long
