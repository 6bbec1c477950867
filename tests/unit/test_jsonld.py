"""Structured data for search engines on an object's page."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.jsonld import inside_script, schema_type, structured_data
from domain.objects import Description, ObjectFacts, ObjectKey, description
from domain.ratings import Entity, RatingTally
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import Facts

XSS = json.loads((Path(__file__).parents[1] / "support" / "xss.json").read_text())
CAMERA = Entity("Product", "camera")
AT = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)


def review_of(text: str = "Sharp.", **fields: Any) -> Review:
    given: dict[str, Any] = {"entity_name": None, "store_id": "shop", "user_id": "anna-secret", "user_name": None}
    given |= {"title": None, "rating": 450, "status": ReviewStatus.APPROVED}
    return Review(**{**given, "id": "r1", "entity": CAMERA, "text": text, "created": AT, "modified": AT, **fields})


def test_product_document() -> None:
    about = Description(
        "Camera",
        "https://shop.example/c",
        "https://shop.example/i",
        ("4006381333931",),
        ("m-1",),
        ("c-1", "c-2"),
        ("Acme",),
    )
    reviews = [review_of(title="Good", user_name="Anna", facts=Facts(language="en")), review_of(rating=400)]
    scale = {"bestRating": 5, "worstRating": 1}
    assert structured_data(CAMERA, about, RatingTally(3, 1300), reviews) == {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": "Camera",
        "url": "https://shop.example/c",
        "image": "https://shop.example/i",
        "sku": ["c-1", "c-2"],
        "gtin": "4006381333931",
        "mpn": "m-1",
        "brand": {"@type": "Brand", "name": "Acme"},
        "aggregateRating": {
            "@type": "AggregateRating",
            "ratingValue": 4.33,
            "reviewCount": 3,
            "ratingCount": 3,
            **scale,
        },
        "review": [
            {
                "@type": "Review",
                "author": {"@type": "Person", "name": "Anna"},
                "datePublished": "2026-03-14",
                "reviewRating": {"@type": "Rating", "ratingValue": 4.5, **scale},
                "name": "Good",
                "inLanguage": "en",
                "reviewBody": "Sharp.",
            },
            {
                "@type": "Review",
                "author": {"@type": "Person", "name": "Anonymous"},
                "datePublished": "2026-03-14",
                "reviewRating": {"@type": "Rating", "ratingValue": 4, **scale},
                "reviewBody": "Sharp.",
            },
        ],
    }


@pytest.mark.parametrize(
    ("entity_type", "shown"),
    [
        *(("product", "Product"), ("Lens", "Product"), ("book", "Book"), ("musicRecording", "MusicRecording")),
        *(("Organization", None), ("localBusiness", None), ("Restaurant", None), ("Vendor", None), ("seller", None)),
        *(("Order", None), ("CustomerOrder", None), ("Customer", None), ("DeliveryService", None)),
    ],
)
def test_schema_types(entity_type: str, shown: str | None) -> None:
    assert schema_type(entity_type) == shown
    document = structured_data(Entity(entity_type, "1"), Description(skus=("s",)), RatingTally(1, 500), [])
    assert document.get("@type") == shown
    assert ("sku" in document) == (shown == "Product")
    assert "review" not in document


def test_no_structured_data_without_reviews() -> None:
    assert structured_data(CAMERA, Description("Camera"), RatingTally(), []) == {}


def test_invisible_facts_are_left_out() -> None:
    place, blank = ObjectKey(CAMERA, "shop"), ("\u200b", " ")
    texts = dict.fromkeys(("name", "url", "imageUrl"), " ")
    facts = {place: ObjectFacts({**texts, **dict.fromkeys(("gtins", "mpns", "brands"), blank), "skus": (" ", "c-1")})}
    about = description(facts, place)
    assert about == Description(skus=("c-1",))
    for names, shown in ((("\u200b", "Camera"), "Camera"), ((" ",), "camera")):
        document = structured_data(CAMERA, about, RatingTally(1, 500), [review_of(entity_name=name) for name in names])
        assert (document["name"], document["sku"]) == (shown, "c-1")
        assert not document.keys() & {"gtin", "mpn", "brand", "url", "image"}


@pytest.mark.parametrize("text", [*XSS, "</script>\u2028\u2029&<!--"])
def test_no_text_closes_the_script_element(text: str) -> None:
    about = Description(text, text, text, (text,), (text,), (text,), (text,))
    review = review_of(text, title=text, user_name=text)
    document = structured_data(CAMERA, about, RatingTally(1, 500), [review])
    shown = inside_script(orjson.dumps(document))
    assert orjson.loads(shown) == document
    assert not set(shown.decode()) & set("<>&\u2028\u2029")


@given(st.text())
@pytest.mark.long
def test_script_escapes_round_trip(text: str) -> None:
    assert orjson.loads(inside_script(orjson.dumps({"text": text}))) == {"text": text}


def test_invisible_name_and_title_are_left_out() -> None:
    document = structured_data(CAMERA, Description(), RatingTally(1, 450), [review_of(title="\u200b", user_name=" ")])
    (review,) = document["review"]
    assert review["author"]["name"] == "Anonymous"
    assert "name" not in review


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("N" * 99, "N" * 99),
        ("N" * 100, "N" * 99),
        ("N" * 98 + "e\u0301\u0323t", "N" * 98),
        ("N" * 98 + "👩\u200d🚀", "N" * 98),
        ("N" * 97 + "👩\u200d🚀", "N" * 97),
        ("N" * 98 + "👋🏽", "N" * 98),
        ("N" + "\u0301" * 127, "N" + "\u0301" * 98),
        ("N" + "o\u200d" + "\u0301" * 125, "N"),
        (" " * 99 + "N", "Anonymous"),
        ("N" * 98 + "🇸🇪", "N" * 98),
        ("N" * 97 + "🇸🇪🇳🇴", "N" * 97 + "🇸🇪"),
        ("N" * 96 + "🇸🇪🇳🇴", "N" * 96 + "🇸🇪"),
        ("N" * 95 + "🇸🇪🇸", "N" * 95 + "🇸🇪🇸"),
        ("N" * 96 + "🇸a🇪N", "N" * 96 + "🇸a🇪"),
        ("🇸🇪" * 50, "🇸🇪" * 49),
        ("🇸" + "🇸🇪" * 49 + "N", "🇸" + "🇸🇪" * 49),
    ],
    ids=[
        *(
            "short",
            "long",
            "marks",
            "before a joiner",
            "behind a joiner",
            "a colour",
            "marks alone",
            "one letter, then marks",
        ),
        "blank",
        "within a flag",
        "between flags",
        "within the second flag",
        "half a flag",
        "letters of no flag",
        "flags alone",
        "behind an odd number of letters",
    ],
)
def test_author_names_are_cut_at_googles_limit(name: str, shown: str) -> None:
    document = structured_data(CAMERA, Description(), RatingTally(1, 450), [review_of(user_name=name)])
    assert document["review"][0]["author"]["name"] == shown
