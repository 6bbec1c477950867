"""Checks of a template: every variable is looked up in a sample, also in branches that aren't taken."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

from liquid import BoundTemplate, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions.filtered import FilteredExpression
from liquid.builtin.expressions.path import Path
from liquid.builtin.expressions.primitive import Blank, Empty, IntegerLiteral, RangeLiteral
from liquid.builtin.tags.for_tag import ForNode
from liquid.expression import Expression
from liquid.token import Token

from messaging.templates.tokens import refuse

LONGEST_RANGE: Final = 1_000

_ANY: Final = object()
"""An unknown value, such as that of a variable that the template assigns."""

_LOOP: Final = dict.fromkeys(("index", "index0", "rindex", "rindex0", "first", "last", "length", "parentloop"), _ANY)


def check(template: BoundTemplate, sample: Mapping[str, Any], filters: Collection[str]) -> None:
    """Raise SourceError for a template with variables that the sample doesn't have, or with other filters."""
    static = RenderContext(template)
    assigned = {name: _ANY for node in _all_nodes(template.nodes, static) for name in map(str, node.template_scope())}
    _check_nodes(template.nodes, static, {**sample, **assigned}, filters)


def _all_nodes(nodes: Iterable[Node], static: RenderContext) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _all_nodes(node.children(static), static)


def _check_nodes(
    nodes: Iterable[Node], static: RenderContext, scope: Mapping[str, Any], filters: Collection[str]
) -> None:
    for node in nodes:
        for expression in node.expressions():
            _check_expression(expression, scope, filters)
        inner = scope
        if isinstance(node, ForNode):
            element = _sample_element(node.token, _sample_value(node.expression.iterable, scope))
            inner = {**scope, str(node.expression.identifier): element, "forloop": _LOOP}
        _check_nodes(node.children(static), static, inner, filters)


def _check_expression(expression: Expression, scope: Mapping[str, Any], filters: Collection[str]) -> None:
    match expression:
        case Path():
            _sample_value(expression, scope)
        case RangeLiteral(start=IntegerLiteral(value=start), stop=IntegerLiteral(value=stop)):
            if stop - start >= LONGEST_RANGE:
                _refuse(expression.token, f"a range may have at most {LONGEST_RANGE} numbers")
        case RangeLiteral():
            _refuse(expression.token, "a range needs two numbers: `(1..5)`")
        case Blank() | Empty():
            _refuse(expression.token, "unknown values are nil: write `{% if x %}` instead of comparing with blank")
        case FilteredExpression(filters=used):
            for each in used or ():
                if each.name not in filters:
                    _refuse(each.token, f"there is no filter `{each.name}`; available: {', '.join(sorted(filters))}")
    for child in expression.children():
        _check_expression(child, scope, filters)


def _sample_value(expression: Expression, scope: Mapping[str, Any]) -> Any:
    """The value of an expression in the sample, as far as its fields matter. Raises SourceError."""
    if isinstance(expression, RangeLiteral):
        return [_ANY]
    if not isinstance(expression, Path):
        return ""
    value: Any = scope
    for segment in expression.path:
        if value is _ANY:
            break
        if isinstance(segment, Path):
            value = value[0] if isinstance(value, list) else _ANY
        elif isinstance(segment, int) or (isinstance(value, list) and segment in ("first", "last")):
            value = _sample_element(expression.token, value)
        elif segment == "size" and isinstance(value, str | list):
            value = ""
        elif isinstance(value, Mapping) and segment in value:
            value = value[segment]
        else:
            known = ", ".join(value) if isinstance(value, Mapping) else "nothing"
            _refuse(expression.token, f"`{segment}` is not known here; available: {known}")
    return value


def _sample_element(token: Token, value: Any) -> Any:
    if value is _ANY:
        return _ANY
    return value[0] if isinstance(value, list) else _refuse(token, "this is not a list")


def _refuse(token: Token, reason: str) -> NoReturn:
    refuse(token.source, max(token.start_index, 0), reason)
