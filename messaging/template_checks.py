"""Which templates are in the language: by a list of what is, and by following every variable into a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from jinja2 import nodes

MAX_NODES: Final = 2_000
"""How many things a part of a template may be made of, plain text between them not counted."""

MAX_DEPTH: Final = 50
"""How deeply they may be nested: a chain of filters is, too, and takes Jinja the square of its length to compile."""

TOO_DEEP: Final = "it is nested too deeply"
TOO_MANY_NODES: Final = f"a part of a template may have {MAX_NODES} variables, operators and statements"

_ALLOWED: Final = frozenset(
    {
        *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For),
        *(nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Const, nodes.Tuple, nodes.List),
        *(nodes.Filter, nodes.Test, nodes.Keyword, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
        *(nodes.CondExpr, nodes.Concat, nodes.Add, nodes.Sub),
    }
)
_LOOP: Final = {"index": 1, "index0": 0, "revindex": 1, "revindex0": 0, "first": True, "last": True, "length": 1}


class SourceError(ValueError):
    """A source that can't be used; `line` is where, counted from 1, `reason` says why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def check(template: nodes.Template, sample: Mapping[str, Any]) -> None:
    """Raises SourceError for a template that isn't in the language, or that uses what the sample doesn't have."""
    _check_kinds(template)
    _check_statements(template, sample, in_loop=False)


def _check_kinds(template: nodes.Template) -> None:
    count = 0
    waiting: list[tuple[nodes.Node, int]] = [(template, 0)]
    while waiting:
        node, depth = waiting.pop()
        if type(node) not in _ALLOWED:
            _refuse(node, f"{type(node).__name__} can't be used in a mail template")
        if isinstance(node, nodes.Filter | nodes.Test) and (node.dyn_args or node.dyn_kwargs):
            _refuse(node, "* and ** can't be used in a mail template")
        count += not isinstance(node, nodes.TemplateData)
        if count > MAX_NODES:
            _refuse(node, TOO_MANY_NODES)
        if depth > MAX_DEPTH:
            _refuse(node, TOO_DEEP)
        waiting.extend((child, depth + 1) for child in node.iter_child_nodes())


def _check_statements(node: nodes.Node, scope: Mapping[str, Any], *, in_loop: bool) -> None:
    match node:
        case nodes.For():
            if in_loop or node.recursive:
                _refuse(node, "a loop can't be within a loop")
            if not isinstance(node.target, nodes.Name):
                _refuse(node, "a loop has one variable")
            inner = {**scope, node.target.name: _element(node.iter, _value(node.iter, scope)), "loop": _LOOP}
            if node.test:
                _value(node.test, inner)
            for child in node.body:
                _check_statements(child, inner, in_loop=True)
            for child in node.else_:
                _check_statements(child, scope, in_loop=in_loop)
        case nodes.Output():
            for child in node.nodes:
                if isinstance(_value(child, scope), Mapping | list):
                    _refuse(child, "this has several values: write one of its fields, or `join` them")
        case nodes.Expr():
            _value(node, scope)
        case _:
            for child in node.iter_child_nodes():
                _check_statements(child, scope, in_loop=in_loop)


def _value(node: nodes.Node, scope: Mapping[str, Any]) -> Any:
    """What an expression comes to with the sample, as far as its fields matter: else a text."""
    match node:
        case nodes.Name():
            return _field(node, scope, node.name)
        case nodes.Getattr():
            return _field(node, _value(node.node, scope), node.attr)
        case nodes.Getitem():
            owner, key = _value(node.node, scope), node.arg
            if not isinstance(key, nodes.Const):
                _refuse(node, "in [...] there must be a number or a name in quotes")
            return _element(node, owner) if isinstance(key.value, int) else _field(node, owner, key.value)
        case nodes.Filter():
            return _filtered(node, scope)
        case _:
            for child in node.iter_child_nodes():
                _value(child, scope)
            return ""


def _filtered(node: nodes.Filter, scope: Mapping[str, Any]) -> Any:
    if node.node is None:
        _refuse(node, "a filter needs something to work on")
    value = _value(node.node, scope)
    for argument in (*node.args, *node.kwargs):
        _value(argument, scope)
    attribute = next((pair.value for pair in node.kwargs if pair.key == "attribute"), None)
    field = _field(node, _element(node, value), _constant(attribute)) if attribute else None
    match node.name:
        case "map":
            if node.args or len(node.kwargs) != 1 or not attribute:
                _refuse(node, "`map` takes `attribute` and nothing else")
            return [field]
        case "sort":
            return [_element(node, value)]
        case "first" | "last":
            return _element(node, value)
        case "default" | "d":
            return value
        case "length" | "join":
            return ""
        case _:
            if isinstance(value, Mapping | list):
                _refuse(node, f"`{node.name}` works on one text, not on several values")
            return ""


def _field(node: nodes.Node, owner: Any, name: object) -> Any:
    if isinstance(owner, Mapping) and name in owner:
        return owner[name]
    known = ", ".join(owner) if isinstance(owner, Mapping) else "nothing"
    return _refuse(node, f"`{name}` is not known here; there is: {known}")


def _element(node: nodes.Node, owner: Any) -> Any:
    return owner[0] if isinstance(owner, list) else _refuse(node, "this is not a list")


def _constant(node: nodes.Node) -> object:
    return node.value if isinstance(node, nodes.Const) else _refuse(node, "`attribute` must be a name in quotes")


def _refuse(node: nodes.Node, reason: str) -> NoReturn:
    raise SourceError(node.lineno or 1, reason)
