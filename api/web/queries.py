"""Query parameters: in any letter case, and none that is unknown."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple, get_args, get_origin
from urllib.parse import parse_qsl, urlencode

from fastapi.dependencies.models import Dependant
from pydantic import BeforeValidator
from starlette.types import Scope

from api.web.problems import ItemError, invalid
from messaging.reading_errors import LONGEST_NAME, nearest, pointer
from messaging.reading_shapes import folded_name

_ERRORS: Final = "plaudit.query_errors"

_INTEGER: Final = re.compile(r"-?[0-9]+")
"""Pydantic also reads `1_0`, `+5`, ` 5`, `5.0` and the digits of other scripts. It refuses negative ones by range."""


class BetweenCommas:
    """An annotation of a parameter that has several values, separated by commas."""


class Parameter(NamedTuple):
    """A query parameter; `is_several`: it may occur more than once."""

    name: str
    is_several: bool
    is_integer: bool
    has_commas: bool = False


def query_parameters(endpoint: Dependant) -> dict[str, Parameter]:
    """The query parameters that an endpoint and its dependencies take, by folded name."""
    return {folded_name(each.name): each for each in _parameters(endpoint)}


def understand_query(scope: Scope, known: Mapping[str, Parameter]) -> None:
    """Rewrite the query with the names of the API. Errors in it are kept for `check_query`."""
    query: bytes = scope["query_string"]
    text = query.decode(errors="surrogateescape")
    given = parse_qsl(text, keep_blank_values=True, errors="surrogateescape")
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    errors: list[ItemError] = []
    for name, value in given:
        if not _is_unicode(name + value):
            shown = name.encode(errors="replace").decode()
            errors.append(_error(shown, "not-utf-8", "Must be UTF-8, percent-encoded"))
            continue
        parameter = known.get(folded_name(name))
        if parameter is None:
            hint = nearest(name, [each.name for each in known.values()]) if len(errors) < 10 else ""
            errors.append(_error(name, "unknown-parameter", f"There is no parameter with this name. {hint}".strip()))
            continue
        if parameter.name in seen and not parameter.is_several:
            hint = f". Send one with commas: {parameter.name}=a,b" if parameter.has_commas else ""
            message = f"The parameter is given twice; letter case is ignored{hint}"
            errors.append(_error(name, "duplicate-parameter", message))
        if parameter.is_integer and not _INTEGER.fullmatch(value):
            errors.append(_error(parameter.name, "int-parsing", "Must be an integer, in the digits 0 to 9"))
        seen.add(parameter.name)
        pairs.append((parameter.name, value))
    if errors:
        scope[_ERRORS] = errors
    if pairs != given or not query.isascii():
        scope["query_string"] = urlencode(pairs).encode()


def check_query(scope: Scope) -> None:
    """Raise ProblemError for a query with an unknown parameter, one that isn't UTF-8, one that may occur only once and
    is repeated, or an integer that isn't written in digits.

    Called once the caller is known.
    """
    if _ERRORS in scope:
        raise invalid(scope[_ERRORS])


def any_case(words: type[StrEnum]) -> BeforeValidator:
    """Accept the words of a fixed list in any letter case."""
    known = {folded_name(word.value): word.value for word in words}
    return BeforeValidator(lambda text: known.get(folded_name(text), text), json_schema_input_type=words)


def _parameters(endpoint: Dependant) -> Iterator[Parameter]:
    for field in endpoint.query_params:
        type_ = field.field_info.annotation
        is_integer, has_commas = type_ is int or int in get_args(type_), BetweenCommas in field.field_info.metadata
        yield Parameter(field.alias, get_origin(type_) is list, is_integer, has_commas)
    for needed in endpoint.dependencies:
        yield from _parameters(needed)


def _is_unicode(text: str) -> bool:
    """False if there were bytes that aren't UTF-8: each is decoded as a lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _error(name: str, code: str, message: str) -> ItemError:
    return {"pointer": pointer((name[:LONGEST_NAME],)), "code": code, "message": message}
