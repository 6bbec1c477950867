"""The merged ids of changed objects from several queries."""

import json
from collections.abc import AsyncIterator, Collection, Iterable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st

from api.reviews.changes import json_array, merged

T = TypeVar("T")


async def one_by_one(values: Iterable[T]) -> AsyncIterator[T]:
    for value in values:
        yield value


@given(st.lists(st.frozensets(st.text(max_size=3)), max_size=4))
async def test_each_id_is_returned_once(queries: list[Collection[str]]) -> None:
    ids_merged = [id async for id in merged([one_by_one(sorted(ids)) for ids in queries])]
    assert ids_merged == sorted({id for ids in queries for id in ids})


@given(st.lists(st.lists(st.text(), min_size=1)))
async def test_batches_form_one_json_array(batches: list[list[str]]) -> None:
    written = b"".join([part async for part in json_array(one_by_one(batches))])
    assert json.loads(written) == [id for batch in batches for id in batch]
