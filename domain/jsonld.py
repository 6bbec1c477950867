"""An object's rating and reviews as structured data for search engines: schema.org in JSON-LD.

Types and properties are those of Google's review snippets:
https://developers.google.com/search/docs/appearance/structured-data/review-snippet
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from unicodedata import category

from domain.invisible import unless_blank
from domain.objects import Description
from domain.ratings import HIGHEST_RATING, Entity, RatingMethod, RatingTally, rating_number, rating_value
from domain.reviews import Review

NOBODY: Final = "Anonymous"
"""The displayed name of an author without one."""

LOWEST_RATING: Final = 1

LONGEST_AUTHOR: Final = 99
"""Maximum characters of an author's name: from 100 on, Google shows no author-based snippets of the page."""

_PRODUCT: Final = "Product"
_RATED_TYPES: Final = {
    name.lower(): name
    for name in (
        *("Book", "Course", "CreativeWorkSeason", "CreativeWorkSeries", "Episode", "Event", "Game", "MediaObject"),
        *("Movie", "MusicPlaylist", "MusicRecording", _PRODUCT, "Recipe", "SoftwareApplication"),
    )
}
_NOT_SOLD: Final = frozenset(
    {
        *("organization", "localbusiness", "corporation", "onlinebusiness", "onlinestore", "store", "shop"),
        *("foodestablishment", "restaurant", "lodgingbusiness", "hotel", "professionalservice"),
        *("vendor", "seller", "merchant", "supplier", "manufacturer", "brand"),
        *("person", "customer", "contact", "employee", "order", "customerorder"),
        *("delivery", "deliveryservice", "shipping", "shipment"),
    }
)
_SCALE: Final = {"bestRating": HIGHEST_RATING, "worstRating": LOWEST_RATING}
_FLAG_LETTERS: Final = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
_JOINER: Final = "\u200d"
_UNSAFE: Final = (b"<", b">", b"&", "\u2028".encode(), "\u2029".encode())


def schema_type(entity_type: str) -> str | None:
    """The schema.org type of an object type, in any letter case: the same type if search engines show its ratings, else
    Product. None for types that aren't sold: sellers, whose pages may not show their own ratings, people, orders and
    deliveries."""
    name = entity_type.lower()
    return None if name in _NOT_SOLD else _RATED_TYPES.get(name, _PRODUCT)


def structured_data(
    entity: Entity, about: Description, tally: RatingTally, reviews: Sequence[Review]
) -> dict[str, Any]:
    """The JSON-LD of an object with its rating, the plain average, and these reviews with their texts. The object's
    name comes from its description, else from a review, else from its id.

    Empty without reviews, and for types that aren't sold: search engines get nothing then.
    """
    type = schema_type(entity.type)
    if type is None or tally.count <= 0:
        return {}
    name = about.name or next(filter(None, (unless_blank(review.entity_name) for review in reviews)), entity.id)
    found: dict[str, Any] = {"@context": "https://schema.org", "@type": type, "name": name}
    found |= {key: url for key, url in (("url", about.url), ("image", about.image_url)) if url}
    if type == _PRODUCT:
        found |= _codes(about)
    found["aggregateRating"] = {
        "@type": "AggregateRating",
        "ratingValue": rating_value(tally, RatingMethod.AVERAGE),
        "reviewCount": tally.count,
        "ratingCount": tally.count,
        **_SCALE,
    }
    return {**found, "review": [_review(review) for review in reviews]} if reviews else found


def inside_script(json: bytes) -> bytes:
    """Equivalent JSON in UTF-8 that can neither end the script element around it nor start markup within."""
    for text in _UNSAFE:
        json = json.replace(text, b"\\u%04x" % ord(text.decode()))
    return json


def _codes(about: Description) -> Mapping[str, Any]:
    brands = [{"@type": "Brand", "name": name} for name in about.brands]
    codes = (("sku", about.skus), ("gtin", about.gtins), ("mpn", about.mpns), ("brand", brands))
    return {key: values[0] if len(values) == 1 else list(values) for key, values in codes if values}


def _review(review: Review) -> Mapping[str, Any]:
    optional = {"name": unless_blank(review.title), "inLanguage": review.facts.language}
    return {
        "@type": "Review",
        "author": {"@type": "Person", "name": unless_blank(_shortened(review.user_name)) or NOBODY},
        "datePublished": review.created.date().isoformat(),
        "reviewRating": {"@type": "Rating", "ratingValue": rating_number(review.rating), **_SCALE},
        **{key: text for key, text in optional.items() if text},
        "reviewBody": review.text,
    }


def _shortened(name: str | None) -> str | None:
    """The name, cut to LONGEST_AUTHOR characters without splitting combining marks, emoji or flags."""
    if name is None or len(name) <= LONGEST_AUTHOR:
        return name
    ends = (end for end in range(LONGEST_AUTHOR, 0, -1) if not _is_modifier(name[end]) and name[end - 1] != _JOINER)
    return name[: next((end for end in ends if not _is_within_flag(name, end)), LONGEST_AUTHOR)]


def _is_within_flag(name: str, end: int) -> bool:
    """True if `end` is between the two regional indicators of a flag."""
    before = next(n for n in range(end + 1) if n == end or name[end - n - 1] not in _FLAG_LETTERS)
    return name[end] in _FLAG_LETTERS and before % 2 == 1


def _is_modifier(character: str) -> bool:
    """True for a character that modifies the one before it: a combining mark, a joiner, a skin tone."""
    kind = category(character)
    return kind.startswith("M") or kind in {"Cf", "Sk"}
