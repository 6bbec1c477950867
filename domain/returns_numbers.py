"""Return numbers by a template of the store: a date, and a sequence that restarts with each date."""

import re
from collections.abc import Callable
from datetime import date
from string import Formatter
from typing import Final

DEFAULT_NUMBER_TEMPLATE: Final = "RET{date:%y%m%d}-{sequence:05d}"

_SAMPLE: Final = (date(2022, 3, 14), 1)
_DATE_PART = re.compile(r"(%[YymdjV]|[-_./ ])*")
_SEQUENCE_PART = re.compile(r"(0?[1-9]\d?)?d?")
_NET_DATE = re.compile(r"([A-Za-z])\1*|[-_./ ]|.")
_NET_SEQUENCE = re.compile(r"[Dd]([1-9]\d?)?|(0{1,99})|")
_DATE_OF_NET: Final = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d"}
_RUN_TOGETHER = re.compile(r"D9*S|S9*[DS]")


def check_template(template: str) -> None:
    """Raises ValueError for a template that a store must not have.

    Beyond the rules of `return_number`, the date must be visible and separated from the sequence: a sequence can
    outgrow its digits, and then nothing but a separator shows where one ends and the other begins.
    """
    return_number(template, *_SAMPLE)
    shape = _shape(template)
    if "D" not in shape:
        raise ValueError("The template has no date: use {date:%y%m%d}")
    if _RUN_TOGETHER.search(shape):
        raise ValueError(
            "Put something that is not a digit between the date and the sequence, as in RET{date:%y%m%d}-{sequence:05d}"
        )


def _shape(template: str) -> str:
    """The template with D for each digit of the date, S for a sequence, 9 for a digit of the text, x for all else."""
    shape = ""
    for text, name, spec, _ in _parsed(template):
        shape += "".join("9" if character.isdigit() else "x" for character in text)
        if name == "date":
            shown = _formatted_date(spec, _SAMPLE[0])
            shape += "".join("D" if character.isdigit() else "x" for character in shown)
        elif name == "sequence":
            shape += "S"
    return shape


def return_number(template: str, day: date, sequence: int) -> str:
    """The number of a return: a text with `{date:...}` (strftime) and `{sequence:...}` (an integer), or their .NET
    forms `{0:yyMMdd}` and `{1:D5}`.

    Raises ValueError for other placeholders, and if one of the two is missing, since two returns could
    then get the same number.
    """
    return _filled(template, day, lambda spec: format(sequence, spec or "d"))


def return_series(template: str, day: date) -> str:
    """The series of a template and a day, whose numbers share one sequence, whatever their width."""
    return _filled(template, day, lambda _: "#")


def _filled(template: str, day: date, sequence: Callable[[str], str]) -> str:
    number = ""
    used = set()
    for text, name, spec, _ in _parsed(template):
        number += text
        used.add(name)
        if name == "date" and _DATE_PART.fullmatch(spec or ""):
            number += _formatted_date(spec, day)
        elif name == "sequence" and _SEQUENCE_PART.fullmatch(spec or ""):
            number += sequence(spec or "")
        elif name is not None:
            raise _unusable_error(name, spec)
    if not {"date", "sequence"} <= used:
        raise ValueError("The template needs both {date:%y%m%d} and {sequence:05d}")
    return number


def _formatted_date(spec: str | None, day: date) -> str:
    return day.strftime(spec or "%y%m%d")


def _parsed(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"The template can't be read: {error}") from error
    return [(text, *_from_net(name, spec), conversion) for text, name, spec, conversion in parts]


def _from_net(name: str | None, spec: str | None) -> tuple[str | None, str | None]:
    """A placeholder in Python's names and formats, converted from .NET's positional form if necessary."""
    if name == "0":
        shown = [match[0] for match in _NET_DATE.finditer(spec or "")]
        if not shown or not all(each in _DATE_OF_NET or each in "-_./ " for each in shown):
            raise _unusable_error(name, spec)
        return "date", "".join(_DATE_OF_NET.get(each, each) for each in shown)
    if name == "1":
        digits = _NET_SEQUENCE.fullmatch(spec or "")
        if digits is None:
            raise _unusable_error(name, spec)
        width = int(digits[1] or 0) or len(digits[2] or "")
        return "sequence", f"0{width}d" if width else "d"
    return name, spec


def _unusable_error(name: str, spec: str | None) -> ValueError:
    return ValueError(f"Use {{date:%y%m%d}} and {{sequence:05d}}, or {{0:yyMMdd}} and {{1:D5}}, not {{{name}:{spec}}}")
