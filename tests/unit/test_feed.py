"""Google's product review feed: its content, and its validity by the schema."""

import io
import json
import re
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from domain.feed import (
    MOST_BYTES,
    MOST_REVIEWS,
    feed_bytes,
    feed_foot,
    feed_head,
    is_in_feed,
    product_url,
    review_element,
)
from domain.objects import Description, Fact, ObjectFacts, ObjectKey, description
from domain.reviews import Review
from domain.reviews_facts import Facts, ReviewImage, Source
from messaging.objects import Url
from storefront.feed_files import Elements, files, zipped
from tests.support.product_reviews import reviews_in
from tests.unit.test_jsonld import CAMERA, review_of

XSS = json.loads((Path(__file__).parents[1] / "support" / "xss.json").read_text())
PAGE = "https://shop.example/camera"
IMAGES = "https://reviews.example/api/images/"
URL: TypeAdapter[str] = TypeAdapter(Url)
AUTHOR = "reviewer/name"
CODES = "products/product/product_ids"


def shown(review: Review, about: Description = Description(url=PAGE), name: str = "Shop") -> dict[str, str]:  # noqa: B008
    url = product_url(about)
    assert url is not None
    element = review_element(review, about, url, IMAGES)
    (found,) = reviews_in(f"{feed_head(name)}<reviews>{element}</reviews>{feed_foot(0)}".encode())
    return found


def test_review_with_all_fields() -> None:
    facts = Facts(verified_purchase=True, incentivized=True, source=Source.REMINDER, language="de-AT")
    images = (ReviewImage("i1"), ReviewImage("i2", is_hidden=True), ReviewImage("i3", is_pending=True))
    review = review_of("Sharp & light.", title="Good", user_name="Anna", facts=facts, images=images)
    about = Description("Camera", PAGE, None, ("4006381333931", "?"), ("m",), ("s1", "s2"), ("Acme",))
    assert shown(review, about) == {
        "review_id": "r1",
        AUTHOR: "Anna",
        "is_verified_purchase": "true",
        "is_incentivized_review": "true",
        "review_timestamp": "2026-03-14T09:26:53.000Z",
        "title": "Good",
        "content": "Sharp & light.",
        "review_language": "de",
        "review_url": PAGE,
        "reviewer_images/reviewer_image/url": f"{IMAGES}i1",
        "ratings/overall": "4.5",
        f"{CODES}/gtins/gtin": "4006381333931",
        f"{CODES}/mpns/mpn": "m",
        f"{CODES}/skus/sku[1]": "s1",
        f"{CODES}/skus/sku[2]": "s2",
        f"{CODES}/brands/brand": "Acme",
        "products/product/product_name": "Camera",
        "products/product/product_url": PAGE,
        "is_spam": "false",
        "collection_method": "post_fulfillment",
    }


def test_minimal_review() -> None:
    review = review_of(title=" ", entity_name="Old camera")
    found = shown(review)
    assert (found[AUTHOR], found[f"{CODES}/skus/sku"]) == ("Anonymous", "camera")
    assert found["products/product/product_name"] == "Old camera"
    assert not {"title", "collection_method", "review_language"} & set(found)
    assert 'is_anonymous="true"' in review_element(review, Description(), PAGE, IMAGES)
    assert "anna-secret" not in review_element(review, Description(), PAGE, IMAGES)
    assert shown(review_of(facts=Facts(source=Source.WIDGET)))["collection_method"] == "unsolicited"
    assert (
        shown(review_of(facts=Facts(source=Source.WIDGET, is_proven=True)))["collection_method"] == "post_fulfillment"
    )


def test_named_author_is_not_anonymous() -> None:
    assert "is_anonymous" not in review_element(review_of(user_name="Anna"), Description(), PAGE, IMAGES)


@pytest.mark.parametrize(("tag", "language"), [("en", "en"), ("DE-at", "de"), ("zh-Hant-TW", "zh")])
def test_language_is_written_without_country(tag: str, language: str) -> None:
    assert shown(review_of(facts=Facts(language=tag)))["review_language"] == language


@pytest.mark.parametrize(
    ("left_out", "foot"),
    [(0, "</feed>\n"), (3, "<!-- reviews omitted because their objects have no url: 3 -->\n</feed>\n")],
)
def test_foot_counts_omitted_reviews(left_out: int, foot: str) -> None:
    assert feed_foot(left_out) == foot


@pytest.mark.parametrize("text", XSS)
def test_hostile_texts_are_escaped(text: str) -> None:
    about = Description(text, PAGE, None, (text,), (text,), (text,), (text,))
    found = shown(review_of(text, title=text, user_name=text), about, name=text)
    places = (AUTHOR, "title", "content", f"{CODES}/mpns/mpn", f"{CODES}/skus/sku", "products/product/product_name")
    assert {found[place] for place in places} == {text}


filled = st.text(min_size=1).filter(str.strip)


@pytest.mark.long
@given(text=filled, name=st.none() | st.text(), codes=st.lists(st.text(max_size=9)).map(tuple))
def test_any_text_gives_a_valid_review(text: str, name: str | None, codes: tuple[str, ...]) -> None:
    place = ObjectKey(CAMERA, "shop")
    facts: dict[str, Fact] = {
        "name": name or "",
        "url": PAGE,
        **dict.fromkeys(("gtins", "mpns", "skus", "brands"), codes),
    }
    about = description({place: ObjectFacts(facts)}, place)
    found = shown(review_of(text, title=name, user_name=name, entity_name=name), about, name=text)
    # XML parsers normalise line ends to \\n.
    read = re.sub(r"\r\n?", "\n", re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text))
    assert found["content"] == read


NO_HOSTS = ("localhost", "[::1]", "u:p@shop.example")
hosts = st.sampled_from(["shop.example", "münchen.example:8080", "a_b.example", *NO_HOSTS])


@given(hosts, st.text("/?#%[]{}|\\^`<>\"'&=;ä.~:@!zA0", max_size=20))
def test_any_accepted_url_gives_a_valid_feed(host: str, rest: str) -> None:
    try:
        url = URL.validate_python(f"https://{host}/{rest}")
    except ValidationError:
        return
    about = Description(url=url)
    if product_url(about) is not None:
        found = shown(review_of(), about)
        assert found["review_url"] == found["products/product/product_url"]
        assert found["review_url"].isascii()
    else:
        assert host in NO_HOSTS


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://shop.example/a b?c=ä#d#e", "https://shop.example/a%20b?c=%C3%A4#d%23e"),
        ("http://shop.example:8080/100%/%C3%A4?", "http://shop.example:8080/100%25/%C3%A4"),
        ("https://Müller.example:8080/ä", "https://xn--mller-kva.example:8080/%C3%A4"),
        ("https://faß.example", "https://xn--fa-hia.example"),
        ("https://Shop.example", "https://Shop.example"),
        *((f"https://{host}/", None) for host in ("a\u2010b.example", f"{'ä' * 64}.example", "u@müller.example")),
        *(("http://localhost:8080/c", None), ("javascript:alert(1)", None), ("https://[", None), (None, None)),
    ],
)
def test_product_urls(url: str | None, address: str | None) -> None:
    assert product_url(Description(url=url)) == address


def test_only_products_are_in_the_feed() -> None:
    assert (is_in_feed("Product"), is_in_feed("Lens")) == (True, True)
    others = ("Organization", "Vendor", "vendor", "Seller", "Order", "Customer", "DeliveryService")
    assert [each for each in others if is_in_feed(each)] == []


async def batches(*sizes: int) -> AsyncIterator[Elements]:
    for number, size in enumerate(sizes):
        reviews = [review_of(id=f"{number}-{each}") for each in range(size)]
        yield Elements("".join(review_element(each, Description(), PAGE, IMAGES) for each in reviews).encode(), 1)


async def write_files(most_bytes: int, *sizes: int) -> list[bytes]:
    found: dict[int, bytes] = {}
    async for piece in files("Shop", batches(*sizes), most_bytes):
        found[piece.file] = found.get(piece.file, b"") + piece.text
    return list(found.values())


async def test_large_feeds_are_split_into_files() -> None:
    (whole,) = await write_files(10**9, 2, 0, 3)
    assert len(reviews_in(whole)) == 5
    assert b"<!-- reviews omitted because their objects have no url: 3 -->" in whole
    several = await write_files(5_000, 2, 2, 0, 2, 1)
    assert max(map(len, several)) <= 5_000
    counts = [len(reviews_in(file)) for file in several]
    assert (sum(counts), len(counts) > 1) == (7, True)
    assert len({review["review_id"] for file in several for review in reviews_in(file)}) == 7
    assert [reviews_in(file) for file in await write_files(5_000)] == [[]]
    assert [reviews_in(file) for file in await write_files(5_000, 0, 0)] == [[]]


async def test_zip_is_streamed() -> None:
    content = b"".join([part async for part in zipped("Shop", batches(2, 2, 2), 4_000)])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names == [f"product-reviews-{number + 1}.xml" for number in range(len(names))]
        assert len(names) > 1
        assert sum(len(reviews_in(archive.read(name))) for name in names) == 6


@pytest.mark.parametrize("count", [0, 1, 40, 100])
def test_estimate_is_an_upper_bound(count: int) -> None:
    codes = {name: tuple(f"{place:013}" for place in range(count)) for name in ("gtins", "mpns", "skus", "brands")}
    facts: dict[str, Fact] = {"url": f"{PAGE}/{'x' * 1_000}", "name": "The camera", **codes}
    about = description({ObjectKey(CAMERA, None): ObjectFacts(facts)}, ObjectKey(CAMERA, "s"))
    images = tuple(ReviewImage(str(UUID(int=n))) for n in range(5))
    review = review_of(images=images)
    stored = {"_id": review.id, "review": review.text, "images": [{"id": image.id} for image in images]}
    object_document = {"_id": {"entityType": "Product", "entityId": "p1", "storeId": None}, "facts": facts}
    sizes = [len(bson.encode(json.loads(json.dumps(each)))) for each in (stored, object_document)]
    size = len(review_element(review, about, str(about.url), IMAGES).encode())
    assert size < feed_bytes(1, sizes[0], len(images), sizes[1]) < 3 * size


def test_estimate_grows_with_images_and_object_bytes() -> None:
    alone = feed_bytes(1, 500)
    assert feed_bytes(1, 500, 3) - alone == 3 * (feed_bytes(1, 500, 1) - alone) == 300
    assert feed_bytes(1, 500, 0, 70) - alone == 140


def test_too_many_reviews_exceed_the_byte_limit() -> None:
    assert feed_bytes(MOST_REVIEWS, 1_000) > MOST_BYTES > feed_bytes(50_000, 50_000_000)
