"""Resolvers: Python functions, and URL templates with an id."""

import asyncio
import posixpath
import threading
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.entity_types import PartlyResolvedError, ResolvedEntity, ResolverError
from plaudit.entity_types.http_resolvers import MOST_REQUESTS, HttpResolver, value_at
from plaudit.entity_types.resolvers import MOST_THREADS, FunctionResolver
from tests.support.name_server import NameServer, running_name_server


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", {"b": [{"c": 1}, "x"]}),
        ("a.b.0.c", 1),
        ("a.b.1", "x"),
        ("a.b.2", None),
        ("a.b.-1", None),
        ("a.b.c", None),
        ("a.b.²", None),
        ("b", None),
        ("a.b.1.0", None),
        ("0", "zero"),
    ],
)
def test_paths_in_json(path: str, found: object) -> None:
    assert value_at({"a": {"b": [{"c": 1}, "x"]}, "0": "zero"}, path) == found


async def test_plain_and_async_functions() -> None:
    def plain(ids: list[str]) -> Any:
        return {id: {"name": id.upper(), "imageUrl": f"/{id}.png"} for id in ids if id != "c"}

    async def later(ids: list[str]) -> Any:
        await asyncio.sleep(0)
        return {**plain(ids), "z": {"name": "never asked for"}}

    expected = {"a": ResolvedEntity("A", "/a.png"), "b": ResolvedEntity("B", "/b.png")}
    for function in (plain, later):
        assert await FunctionResolver(function)(("a", "b", "c")) == expected


@pytest.mark.parametrize(
    ("value", "entity"),
    [
        (None, None),
        ({}, None),
        ({"name": None}, None),
        ({"name": "  "}, None),
        ({"name": True}, None),
        ({"name": 42}, ResolvedEntity("42")),
        ({"name": " A\0\ud800 ", "imageUrl": ""}, ResolvedEntity("A")),
        ({"name": "A" * 2_000}, ResolvedEntity("A" * 1_024)),
        (ResolvedEntity(" A ", "/a"), ResolvedEntity("A", "/a")),
    ],
)
async def test_results_of_functions_are_normalised(value: Any, entity: ResolvedEntity | None) -> None:
    assert await FunctionResolver(lambda ids: dict.fromkeys(ids, value))(["a"]) == ({"a": entity} if entity else {})


def _exits(ids: list[str]) -> Any:
    raise SystemExit(3)


def _secret(ids: list[str]) -> Any:
    raise KeyError("secret id")


async def _async_secret(ids: list[str]) -> Any:
    raise KeyError("secret id")


@pytest.mark.parametrize("function", [_exits, _secret, _async_secret, lambda ids: ids, lambda ids: {"a": "name"}])
async def test_failing_functions(function: Any) -> None:
    with pytest.raises(ResolverError) as raised:
        await FunctionResolver(function)(["a"])
    assert "secret" not in str(raised.value)


async def test_blocking_function_does_not_block_the_loop() -> None:
    released = threading.Event()

    def blocks(ids: list[str]) -> Any:
        released.wait(30)
        return {id: {"name": id} for id in ids}

    async def blocks_its_loop(ids: list[str]) -> Any:
        return blocks(ids)

    try:
        for function in (blocks, blocks_its_loop):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await FunctionResolver(function)(["a"])
        busy = FunctionResolver(blocks)
        calls = [asyncio.ensure_future(busy([str(i)])) for i in range(3 * MOST_THREADS)]
    finally:
        released.set()
    assert len(await asyncio.gather(*calls)) == 3 * MOST_THREADS


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    async with running_name_server() as names:
        yield names


def resolver(names: NameServer, **options: Any) -> HttpResolver:
    fields = {"name": "product.title", "image": "product.images.0.url", "timeout": 30, **options}
    return HttpResolver(f"{names.address}/products/{{id}}", **fields)


async def test_names_over_http(names: NameServer) -> None:
    names.unknown = {"b"}
    found = await resolver(names, headers={"x-key": "k"})(["a", "b"])
    assert found == {"a": ResolvedEntity("Name of a", "/a.png")}
    assert all("x-key: k\r\n" in head for head in names.headers)


@pytest.mark.parametrize(
    ("id", "target"),
    [
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("...", "..."),
        ("a..b", "a..b"),
        ("?x=1", "%3Fx%3D1"),
        ("#", "%23"),
        ("a:b@c;d,e&f+g", "a%3Ab%40c%3Bd%2Ce%26f%2Bg"),
        ("100%", "100%25"),
        ("a?b=c#d", "a%3Fb%3Dc%23d"),
        ("ü", "%C3%BC"),
        ("{id}", "%7Bid%7D"),
    ],
)
async def test_ids_are_encoded_as_one_path_segment(names: NameServer, id: str, target: str) -> None:
    assert set(await resolver(names)([id])) == {id}
    assert list(names.asked) == [f"/products/{target}"]


@pytest.mark.parametrize(
    "id",
    [
        *(".", "..", "../admin", "a/../b", "a/.", "..\\admin", "..;/admin", "..;x=1"),
        *("..%2F..%2Fadmin", "%2e%2e", "%252e%252e%252fadmin", "a%5c..", "%2E"),
        *("a\r\nHost: b", "%0d%0a", "\0"),
    ],
)
async def test_path_traversing_ids_are_not_requested(names: NameServer, id: str) -> None:
    assert await resolver(names)([id, "a"]) == {"a": ResolvedEntity("Name of a", "/a.png")}
    assert list(names.asked) == ["/products/a"]


@pytest.mark.parametrize("place", ["products/.{id}", "products/{id}.", "{id}/products", "search?id={id}", "{id}{id}"])
async def test_ids_do_not_traverse_from_any_place_of_the_template(names: NameServer, place: str) -> None:
    wanted = HttpResolver(f"{names.address}/{place}", name="product.title", timeout=30)
    await wanted([".", "/..", "../a", "%2e/..%2Fa", "/../", "a"])
    assert names.asked
    assert not {".", ".."} & {step for target in names.asked for step in unquote(target).split("/")}


@given(st.sets(st.text(st.sampled_from("./\\%25eEfF;?#a\r\n"), max_size=12), min_size=10))
@settings(max_examples=20)
@pytest.mark.long
async def test_ids_do_not_traverse_after_repeated_decoding(ids: set[str]) -> None:
    async with running_name_server() as names:
        await resolver(names)(ids)
        for target in names.asked:
            read = target.removeprefix("/products/")
            for _ in range(4):
                read = unquote(read)
                assert posixpath.normpath(f"/products/{read}").startswith("/products")


async def test_concurrent_requests_are_bounded(names: NameServer) -> None:
    ids = [str(i) for i in range(5 * MOST_REQUESTS)]
    assert set(await resolver(names)(ids)) == set(ids)
    assert 1 < names.most_at_once <= MOST_REQUESTS


@pytest.mark.parametrize(
    ("mood", "reason"), [("hangs", "within 0.05 s"), ("fails", "500"), ("floods", "bytes"), ("redirects", "302")]
)
async def test_failing_servers(names: NameServer, mood: Any, reason: str) -> None:
    names.mood = mood
    with pytest.raises(ResolverError, match=reason):
        await resolver(names, timeout=0.05 if mood == "hangs" else 30)(["a", "b"])


async def test_unreachable_server() -> None:
    with pytest.raises(ResolverError, match="ConnectError"):
        await HttpResolver("http://127.0.0.1:1/{id}", name="name")(["secret"])


async def test_failed_request_keeps_other_names(names: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, names.unknown = names.answer, {"d"}
    monkeypatch.setattr(names, "answer", lambda t: (500, b"", "") if t.endswith("/b") else answer(t))
    with pytest.raises(PartlyResolvedError, match="500") as caught:
        await resolver(names)(["a", "b", "c", "d"])
    assert (set(caught.value.found), list(caught.value.failed)) == ({"a", "c"}, ["b"])


@pytest.mark.parametrize("body", [b"", b"[]", b"null", orjson.dumps({"product": {"title": ""}})])
async def test_responses_without_a_name(names: NameServer, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(names, "answer", lambda target: (200, body, ""))
    if body:
        assert await resolver(names)(["a"]) == {}
    else:
        with pytest.raises(ResolverError, match="not JSON"):
            await resolver(names)(["a"])
