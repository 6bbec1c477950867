"""The listed survivors of the mutation tests are about the domain as it is, which `make mutants` finds after hours."""

import ast
from collections.abc import Iterator

from tests.mutants.__main__ import ROOT, known_survivors


def functions() -> Iterator[tuple[str, str]]:
    """The names and the sources of the domain's functions, in one line."""
    for path in (ROOT / "domain").rglob("*.py"):
        source = path.read_text()
        for parent in ast.walk(ast.parse(source)):
            prefix = f"{parent.name}." if isinstance(parent, ast.ClassDef) else ""
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.FunctionDef):
                    yield f"{prefix}{node.name}", " ".join((ast.get_source_segment(source, node) or "").split())


def test_listed_survivors_are_in_the_domain() -> None:
    found = list(functions())
    gone = [
        f"{each.function}: {each.was}"
        for each in known_survivors()
        if not any(name == each.function and " ".join(each.was.split()) in source for name, source in found)
    ]
    assert gone == []
