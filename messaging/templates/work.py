"""The bound on the work of a Liquid template, counted in steps during rendering.

python-liquid limits nested loops, names and output. The work between them is counted here: each iteration of a loop by
its content, each name by the size of its value, each filter by its input and output, and the text that is written. One
step is a microsecond or two of CPU.
"""

from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any, Final, TextIO, cast

from liquid import BoundTemplate, RenderContext
from liquid.ast import BlockNode, Node
from liquid.builtin.expressions.loop import LoopExpression
from liquid.builtin.tags.case_tag import MultiExpressionBlockNode
from liquid.builtin.tags.for_tag import ForNode, ForTag
from liquid.exceptions import FilterArgumentError, LiquidTypeError, ResourceLimitError
from liquid.expression import Expression
from liquid.limits import to_int
from liquid.token import Token
from liquid.undefined import Undefined

MAX_STEPS: Final = 25_000
"""Maximum steps for one part of one mail."""

MAX_OUTPUT_BYTES: Final = 200_000
"""Maximum bytes of a part's output: two parts fit into a message of one MiB even if every character is escaped."""

TOO_MUCH_WORK: Final = f"it takes more than {MAX_STEPS} steps: loop over less, or use fewer filters"

_FILTERED_PER_STEP: Final = 20
"""Characters that the slowest filter (`url_encode`) processes in a step."""

_COPIED_PER_STEP: Final = 200
_LARGEST_NUMBER: Final = 10**15
_WORK_ON_LISTS: Final = frozenset({"concat", "default", "first", "join", "last", "map", "reverse", "size", "slice"}) | {
    *("sort", "sort_natural", "where")
}


class WorkContext(RenderContext):
    """The data of one rendering, and the number of its remaining steps."""

    __slots__ = ("left",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.left = MAX_STEPS

    def charge(self, steps: int) -> None:
        """Count steps. Raises ResourceLimitError if there are too many."""
        self.left -= steps
        if self.left < 0:
            raise ResourceLimitError(TOO_MUCH_WORK, token=None)

    def get(self, path: list[object], *, token: Token | None, **default: Any) -> object:
        """The value of a variable, charged by its size: comparing and writing it takes time."""
        value = super().get(path, token=token, **default)
        self.charge(len(path) + (len(value) // _COPIED_PER_STEP if isinstance(value, str) else 0))
        if isinstance(value, list):
            self.charge(len(value))
        return value

    def filter(self, name: str, token: Token | None) -> Callable[..., object]:
        """A filter that charges its work before doing it. It takes no named arguments."""
        function = super().filter(name, token)

        def counted(value: object, *arguments: object) -> object:
            _check_arguments(name, value, arguments)
            self.charge(1 + _filter_size(name, value, arguments) // _FILTERED_PER_STEP)
            result = function(value, *arguments)
            self.charge(_size(result) // _FILTERED_PER_STEP)
            return result

        return counted

    def get_buffer(self, buf: TextIO | None = None) -> StringIO:
        """The buffer for a part, or for a `capture` in it."""
        return _Output(self)


class _Output(StringIO):
    """Text of bounded length, whose writing is charged."""

    def __init__(self, context: WorkContext) -> None:
        super().__init__()
        self._context = context
        self._left = MAX_OUTPUT_BYTES

    def write(self, text: str) -> int:
        self._context.charge(1 + len(text) // _COPIED_PER_STEP)
        self._left -= len(text.encode(errors="replace"))
        if self._left < 0:
            raise ResourceLimitError(f"it writes more than {MAX_OUTPUT_BYTES} bytes", token=None)
        return super().write(text)


class _LoopBody(BlockNode):
    """The body of a loop: each iteration is charged for its content, whether it writes or not."""

    __slots__ = ("weight",)

    def __init__(self, block: BlockNode) -> None:
        super().__init__(block.token, block.nodes)
        self.weight = 1

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        cast(WorkContext, context).charge(self.weight)
        return super().render_to_output(context, buffer)


class _WorkForNode(ForNode):
    def __init__(
        self, token: Token, expression: LoopExpression, block: BlockNode, default: BlockNode | None = None
    ) -> None:
        super().__init__(token, expression, _LoopBody(block), default)

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        limit, offset = (self._number(name, context) for name in ("limit", "offset"))
        if limit is not None and limit < 0:
            raise LiquidTypeError("`limit` must not be negative", token=self.token)
        # As in Shopify. python-liquid would loop over everything, or raise an error of Python.
        if limit is not None and (limit == 0 or limit + (offset or 0) <= 0):
            return self.default.render(context, buffer) if self.default else 0
        return super().render_to_output(context, buffer)

    def _number(self, name: str, context: RenderContext) -> int | None:
        """The value of `limit` or `offset`, None without one. Raises LiquidTypeError."""
        expression = getattr(self.expression, name)
        value = expression and expression.evaluate(context)
        if expression is None or isinstance(value, Undefined) or value == "continue":
            return None
        try:
            return to_int(value)
        except (ValueError, TypeError, OverflowError):
            raise LiquidTypeError(f"`{name}` needs a whole number", token=self.token) from None


class WorkForTag(ForTag):
    """`for`, with its iterations charged."""

    node_class = _WorkForNode


class WorkTemplate(BoundTemplate):
    """A template with the weight of its nodes."""

    context_class = WorkContext

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        static = RenderContext(self)
        self._weight = sum(_weight(node, static) for node in self.nodes)

    def written(self, data: Mapping[str, object]) -> str:
        """Render the template with the data. Raises LiquidError, RecursionError, or the error of a filter."""
        context = WorkContext(self, globals=data)
        context.charge(self._weight)
        buffer = context.get_buffer()
        self.render_with_context(context, buffer)
        return buffer.getvalue()


def _weight(node: Node, static: RenderContext) -> int:
    """The steps of rendering a node once, with one iteration of each loop in it."""
    inside = sum(_weight(child, static) for child in node.children(static))
    if isinstance(node, ForNode) and isinstance(node.block, _LoopBody):
        node.block.weight = _weight(node.block, static)
    if isinstance(node, MultiExpressionBlockNode):
        # A `when` writes its block once for each value that matches.
        inside *= max(1, len(node.expression.expressions))
    text = len(getattr(node, "text", None) or "") // _COPIED_PER_STEP
    return 1 + text + inside + sum(_expression_weight(expression) for expression in node.expressions())


def _expression_weight(expression: Expression) -> int:
    return 1 + sum(_expression_weight(child) for child in expression.children())


def _check_arguments(name: str, value: object, arguments: tuple[object, ...]) -> None:
    if isinstance(value, Mapping | list | range) and not isinstance(value, Undefined) and name not in _WORK_ON_LISTS:
        raise FilterArgumentError(f"`{name}` works on one text, not on several values", token=None)
    for each in (value, *arguments):
        if isinstance(each, int) and abs(each) > _LARGEST_NUMBER:
            raise FilterArgumentError("a number is too large", token=None)


def _filter_size(name: str, value: object, arguments: tuple[object, ...]) -> int:
    """Characters that a filter reads, or writes if that may be many more."""
    size = _size(value) + sum(_size(argument) for argument in arguments)
    match name, arguments:
        case "join", (separator, *_) if isinstance(value, list | range):
            return size + len(value) * len(str(separator))
        case "replace", (old, new, *_):
            return size + str(value).count(str(old)) * len(str(new))
        case "sort" | "sort_natural", _:
            return size * max(1, size.bit_length() - 4)
        case _:
            return size


def _size(value: object) -> int:
    """Number of characters; each element of a list and each field counts 20 more."""
    match value:
        case str():
            return len(value)
        case list() | tuple():
            return sum(_FILTERED_PER_STEP + _size(each) for each in value)
        case range():
            return _FILTERED_PER_STEP * len(value)
        case dict():
            return sum(_FILTERED_PER_STEP + _size(each) for each in value.values())
        case _:
            return _FILTERED_PER_STEP
