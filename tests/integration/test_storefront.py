"""The storefront's public reads: access, content and freshness."""

import gzip
import json
from collections.abc import Collection

import pytest

from api.app import create_app
from api.store_counts import StoreCounts
from domain.stores import Store
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from storefront.app import add_storefront
from tests.support.app import NOWHERE, client_of, facade_services
from tests.support.facade import Facade, body_of, errors_of, new_id, problem_of, submission
from tests.support.images import Images
from tests.support.service import Json, Servers, own_database
from tests.support.waiting import eventually

ORIGIN = "https://shop.example"
NONE = {str(n): 0 for n in range(1, 6)}
EMPTY = {"value": 0.0, "average": 0.0, "reviewCount": 0, "histogram": NONE}


@pytest.fixture
async def store(facade: Facade) -> str:
    return await facade.open_store(storefrontOrigins=[ORIGIN])


async def summary(facade: Facade, store: str, product: str) -> Json:
    return body_of(await facade.http.get(f"/storefront/v1/{store}/Product/{product}/summary"), dict)


async def shown(facade: Facade, store: str, product: str, **query: str | int) -> Json:
    path = f"/storefront/v1/{store}/Product/{product}/reviews"
    return body_of(await facade.http.get(path, params=query), dict)


@pytest.mark.long
async def test_summary_counts_approved_reviews_of_its_store(facade: Facade, store: str, product: str) -> None:
    elsewhere = await facade.open_store(ratingCalculationMethod="Wilson")
    assert await summary(facade, store, product) == EMPTY
    await facade.submit(submission(product, 1, storeId=store))
    await facade.submit_approved(*(submission(product, n, storeId=store, userId=new_id("u")) for n in (5, 4)))
    await facade.submit_approved(submission(product, 5, storeId=elsewhere), submission(product, 1, userId="zoe"))
    totals = await eventually(lambda: summary(facade, store, product), lambda found: found["reviewCount"] == 2)
    assert totals == {"value": 4.5, "average": 4.5, "reviewCount": 2, "histogram": {**NONE, "4": 1, "5": 1}}
    other = await eventually(lambda: summary(facade, elsewhere, product), lambda found: found["reviewCount"] == 1)
    assert (other["value"], other["average"]) == (1.35, 5.0)
    several = await facade.get(f"/storefront/v1/{store}/summaries", entityType="Product", ids=f"{product},nothing")
    assert several == {product: totals, "nothing": EMPTY}


@pytest.mark.long
async def test_public_reviews_hide_their_authors(facade: Facade, store: str, product: str) -> None:
    (id,) = await facade.submit_approved(submission(product, 4, storeId=store, userId="anna-secret"))
    await facade.submit(submission(product, 1, storeId=store, userId="bert"))
    await facade.command("POST", f"/api/customerReviews/{id}/reply", {"text": "Thanks.", "author": "Shop"})
    await facade.command("POST", f"/api/customerReviews/{id}/votes", {"userId": "zoe", "helpful": True})
    page = await eventually(lambda: shown(facade, store, product), lambda page: page["results"][0]["helpful"] == 1)
    (review,) = page["results"]
    assert "anna-secret" not in json.dumps(page)
    assert (review.pop("date"), review["reply"].pop("date")) != (None, None)
    assert review == {
        "id": id,
        "rating": 4,
        "title": "As good as they say",
        "text": "Sharp pictures, and the battery lasts.",
        "author": "Anna Berg",
        "language": "en",
        "verified": False,
        "incentivized": False,
        "images": [],
        "reply": {"text": "Thanks.", "author": "Shop"},
        "helpful": 1,
        "notHelpful": 0,
    }
    assert page["next"] is None


async def test_invisible_names_and_titles_are_null(facade: Facade, store: str, product: str) -> None:
    await facade.submit_approved(submission(product, storeId=store, userName="\u200b", title=" "))
    (review,) = (await shown(facade, store, product))["results"]
    assert (review["author"], review["title"]) == (None, None)
    given = {"rating": 4, "review": "\u200b\u2060"}
    refused = await facade.http.post(f"/storefront/v1/{store}/Product/{product}/reviews", json=given)
    assert errors_of(refused) == [("/review", "blank")]


@pytest.mark.long
async def test_hidden_photos_are_not_shown(facade: Facade, store: str, product: str) -> None:
    images = Images(facade.http)
    hidden, partly = [await images.upload()], [await images.upload(), await images.upload()]
    submissions = [submission(product, storeId=store, userId=new_id("u"), images=ids) for ids in (hidden, partly)]
    first, second = await facade.submit_approved(*submissions)
    await images.moderate("hide", first, hidden[0])
    await images.moderate("hide", second, partly[0])

    async def found(photos: str) -> list[tuple[str, int]]:
        page = await shown(facade, store, product, photos=photos)
        return [(row["id"], len(row["images"])) for row in page["results"]]

    assert await found("true") == [(second, 1)]
    assert await found("false") == [(first, 0)]


@pytest.mark.long
async def test_pages_are_sorted_and_filtered(facade: Facade, store: str, product: str) -> None:
    ratings = [5, 3.5, 3.4, 1, 4.5]
    ids = []
    for number, rating in enumerate(ratings):
        ids += await facade.submit_approved(submission(product, rating, storeId=store, userId=f"u{number}"))

    async def pages(**query: str | int) -> list[int]:
        found: list[int] = []
        after: dict[str, str] = {}
        while True:
            page = await shown(facade, store, product, take=2, **query, **after)
            found += [ids.index(row["id"]) for row in page["results"]]
            if page["next"] is None:
                return found
            after = {"after": page["next"]}

    await eventually(lambda: shown(facade, store, product), lambda page: len(page["results"]) == 5)
    assert await pages() == [4, 3, 2, 1, 0]
    assert await pages(sort="highest") == [0, 4, 1, 2, 3]
    assert await pages(sort="Lowest") == [3, 2, 1, 4, 0]
    assert await pages(sort="helpful") == [4, 3, 2, 1, 0]
    assert await pages(stars=4) == [1]
    assert await pages(stars=5, sort="lowest") == [4, 0]
    assert await pages(verified="true") == await pages(photos="true") == []
    assert await pages(language="en") == [4, 3, 2, 1, 0]
    path = f"/storefront/v1/{store}/Product/{product}/reviews"
    assert errors_of(await facade.http.get(path, params={"stars": 6}))[0][0] == "/stars"
    assert errors_of(await facade.http.get(path, params={"star": 5})) == [("/star", "unknown-parameter")]
    filtered = await facade.http.request("GET", path, json={"stars": 5})
    assert errors_of(filtered) == [("", "unexpected-body")]
    first = await shown(facade, store, product, take=2)
    moved = await facade.http.get(path, params={"after": first["next"], "sort": "highest"})
    assert errors_of(moved) == [("/after", "unknown-page")]


@pytest.mark.parametrize(("query_timeout", "most_ms"), [(60.0, 2_000), (1.5, 1_500)])
async def test_filtered_pages_have_less_time(servers: Servers, query_timeout: float, most_ms: int) -> None:
    """With a filter that matches no review, MongoDB reads all reviews of the object, and anyone can make up filters.
    They never have more time than other queries."""

    async def stores_there(ids: Collection[str]) -> dict[str, Store]:
        return {"S": Store("S")}

    async with own_database(servers, query_timeout=query_timeout) as database:
        app = create_app(facade_services(database, Publisher(KafkaConnection(NOWHERE))))
        add_storefront(app)
        app.state.services.lookups.stores_for_rules = stores_there
        await database.command({"profile": 2})
        async with client_of(app) as http:
            for query in ("", "language=xx", "photos=true", "verified=true", "stars=5"):
                body_of(await http.get(f"/storefront/v1/S/Product/1/reviews?{query}"), dict)
        await database.command({"profile": 0})
        finds = {"ns": f"{database.name}.reviews", "op": "query"}
        looks = await database["system.profile"].find(finds).sort("$natural").to_list()
    limits = [look["command"]["maxTimeMS"] for look in looks]
    assert (limits[0] > 2_000) is (query_timeout > 2)
    assert [limit <= most_ms for limit in limits[1:]] == [True] * 4


async def test_extent_of_feed_has_no_more_time_than_other_queries(servers: Servers) -> None:
    async with own_database(servers, query_timeout=1.5) as database:
        await database.command({"profile": 2})
        await StoreCounts(database).extent_of_feed("S")
        await database.command({"profile": 0})
        looks = await database["system.profile"].find({"ns": f"{database.name}.reviews"}).to_list()
    assert {look["command"]["maxTimeMS"] <= 1_500 for look in looks} == {True}


async def test_validators_compression_and_origins(facade: Facade, store: str, product: str) -> None:
    await facade.submit_approved(
        *(submission(product, 4, storeId=store, userId=f"u{number}") for number in range(5)),
    )
    path = f"/storefront/v1/{store}/Product/{product}/reviews"
    plain = await facade.http.get(path, headers={"accept-encoding": "identity", "origin": ORIGIN})
    assert plain.headers["access-control-allow-origin"] == ORIGIN
    assert plain.headers["cache-control"] == "public, max-age=60, stale-while-revalidate=600"
    assert "content-encoding" not in plain.headers
    async with facade.http.stream("GET", path, headers={"accept-encoding": "gzip", "origin": "https://x.example"}) as r:
        raw = b"".join([part async for part in r.aiter_raw()])
        assert r.headers["content-encoding"] == "gzip"
        assert "access-control-allow-origin" not in r.headers
        assert r.headers["vary"] == "Origin, Accept-Encoding"
        assert len(raw) == int(r.headers["content-length"])
        packed = r.headers["etag"]
    assert gzip.decompress(raw) == plain.content
    assert packed != plain.headers["etag"]
    for tag in (packed, plain.headers["etag"], f'"x", W/{packed}'):
        again = await facade.http.get(path, headers={"if-none-match": tag})
        assert (again.status_code, again.content) == (304, b"")
    head = await facade.http.head(path, headers={"accept-encoding": "identity"})
    assert (head.content, head.headers["content-length"]) == (b"", str(len(plain.content)))
    assert (await facade.http.get(path, headers={"if-none-match": '"other"'})).status_code == 200
    for address in (path, "/storefront/v1/plaudit-stars.js"):
        assert (await facade.http.get(address, headers={"if-none-match": "*"})).status_code == 304
        for refused in ("gzip;q=0", "br, gzip; q=0.0, *"):
            answer = await facade.http.get(address, headers={"accept-encoding": refused})
            assert "content-encoding" not in answer.headers, refused
        answer = await facade.http.get(address, headers={"accept-encoding": "br;q=1.0, GZIP;q=0.5"})
        assert answer.headers["content-encoding"] == "gzip"


async def test_preflights_and_errors(facade: Facade, store: str, product: str) -> None:
    path = f"/storefront/v1/{store}/Product/{product}/reviews"
    requested = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    allowed = await facade.http.options(path, headers={"origin": ORIGIN, **requested})
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (204, ORIGIN)
    assert (await facade.http.options(path, headers={"origin": "https://x.example", **requested})).status_code == 403
    problem_of(await facade.http.get(f"/storefront/v1/{new_id('store')}/Product/{product}/summary"), 404)
    empty = await facade.http.get(f"/storefront/v1/{store}/summaries", params={"entityType": "Product", "ids": ","})
    assert errors_of(empty) == [("/ids", "missing")]
    for ids, code in (
        (",".join(map(str, range(101))), "too-long"),
        ("x" * 129, "string-too-long"),
        ("a,b\0", "string-pattern-mismatch"),
    ):
        many = await facade.http.get(f"/storefront/v1/{store}/summaries", params={"entityType": "Product", "ids": ids})
        assert errors_of(many) == [("/ids", code)]
    commas = await facade.http.get(f"/storefront/v1/{store}/summaries?entityType=Product&ids=a{',' * 12_899}")
    assert errors_of(commas) == [("/ids", "string-too-long")]
    twice = problem_of(await facade.http.get(f"/storefront/v1/{store}/summaries?entityType=Product&ids=a&ids=b"), 422)
    assert [each["message"] for each in twice["errors"]] == [
        "The parameter is given twice; letter case is ignored. Send one with commas: ids=a,b"
    ]
    refused = await facade.http.get(path, params={"take": 1000}, headers={"origin": ORIGIN})
    assert refused.headers["access-control-allow-origin"] == ORIGIN  # lets the page read the error
