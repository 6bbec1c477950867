"""Parameters of queries: names in any letter case, and none that isn't understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, get_origin
from urllib.parse import parse_qsl, urlencode

from fastapi.dependencies.models import Dependant
from pydantic import BeforeValidator

from api.web.problems import ItemError, invalid
from messaging.reading import nearest
from messaging.reading_shapes import folded_name


class Parameter(NamedTuple):
    """A parameter by its name; `is_several`: it may come more than once."""

    name: str
    is_several: bool


def query_parameters(endpoint: Dependant) -> dict[str, Parameter]:
    """The parameters that an endpoint and its dependencies take from the query, by their folded names."""
    return {folded_name(each.name): each for each in _parameters(endpoint)}


def understood_query(query: bytes, known: Mapping[str, Parameter]) -> bytes:
    """The query with the names of the interface. Raises ProblemError: unknown, or twice where once is meant."""
    told = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    errors: list[ItemError] = []
    for name, value in told:
        parameter = known.get(folded_name(name))
        if parameter is None:
            hint = nearest(name, [each.name for each in known.values()]) if len(errors) < 10 else ""
            errors.append(_error(name, "unknown-parameter", f"There is no parameter of this name. {hint}".strip()))
            continue
        if parameter.name in seen and not parameter.is_several:
            errors.append(_error(name, "duplicate-parameter", "Comes twice; letter case makes no difference"))
        seen.add(parameter.name)
        pairs.append((parameter.name, value))
    if errors:
        raise invalid(errors)
    return query if pairs == told else urlencode(pairs).encode()


def any_case(words: type[StrEnum]) -> BeforeValidator:
    """Take the words of a fixed list in any letter case."""
    known = {folded_name(word.value): word.value for word in words}
    return BeforeValidator(lambda text: known.get(folded_name(text), text), json_schema_input_type=words)


def _parameters(endpoint: Dependant) -> Iterator[Parameter]:
    for field in endpoint.query_params:
        yield Parameter(field.alias, _is_several(field.field_info.annotation))
    for needed in endpoint.dependencies:
        yield from _parameters(needed)


def _is_several(annotation: Any) -> bool:
    return get_origin(annotation) is list


def _error(name: str, code: str, message: str) -> ItemError:
    return {"pointer": f"/{name[:64].replace('~', '~0').replace('/', '~1')}", "code": code, "message": message}
