"""Google's product review feed, version 2.4: its files and its review element.

Elements, their order and their types: https://developers.google.com/product-review-feeds/schema. There is no element
for a store's reply.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit
from xml.etree.ElementTree import Element, SubElement, tostring

from domain.addresses import in_ascii
from domain.invisible import unless_blank
from domain.jsonld import LOWEST_RATING, NOBODY, schema_type
from domain.objects import Description
from domain.ratings import HIGHEST_RATING, rating_number
from domain.reviews import Review
from domain.reviews_facts import Source
from domain.timestamps import timestamp

MOST_BYTES: Final = 100_000_000
"""Maximum bytes of a file (https://support.google.com/merchants/answer/7075701); a larger feed is a zip of several."""

_ENVELOPE_BYTES: Final = 600
"""Bytes that a review takes in a feed beyond the size of its stored document: a generous estimate."""

_IMAGE_BYTES: Final = 100
"""Bytes that each image of a review takes in a feed, estimated as generously."""

MOST_REVIEWS: Final = MOST_BYTES // _ENVELOPE_BYTES
"""Number of reviews that exceed a file whatever their texts."""

_HEAD: Final = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" \
xsi:noNamespaceSchemaLocation="http://www.google.com/shopping/reviews/schema/product/2.4/product_reviews.xsd">
<version>2.4</version>
"""
_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GTIN: Final = re.compile(r"[0-9][0-9 -]{5,}[0-9xX]")
_HOST: Final = re.compile(r"[\w-]+(\.[\w-]+)+(:[0-9]{1,5})?", re.ASCII)
_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_SAFE_IN_URLS: Final = "%/:@!$&'()*+,;=~"
_COLLECTION_METHODS: Final[Mapping[Source | None, str]] = {
    Source.WIDGET: "unsolicited",
    Source.REMINDER: "post_fulfillment",
}


def feed_bytes(reviews: int, stored_bytes: int, images: int = 0, object_bytes: int = 0) -> int:
    """The estimated bytes of a feed. `stored_bytes` are those of the documents of all reviews, `object_bytes` those of
    the object of each review, in total.

    A feed holds the URL of an object twice, and longer names of its codes than the database.
    """
    return stored_bytes + reviews * _ENVELOPE_BYTES + images * _IMAGE_BYTES + 2 * object_bytes


def feed_head(store_name: str) -> str:
    """The beginning of a file, before its reviews."""
    publisher = Element("publisher")
    _add(publisher, "name", store_name)
    return _HEAD + _to_xml(publisher)


def feed_foot(left_out: int) -> str:
    """The end of a file, with a comment on the number of reviews that were left out."""
    comment = f"<!-- reviews omitted because their objects have no url: {left_out} -->\n" if left_out else ""
    return f"{comment}</feed>\n"


def product_url(about: Description) -> str | None:
    """The URL of an object's page in the form that the feed accepts; None if there is none, as for `localhost`."""
    return _address(about.url) if about.url else None


def is_in_feed(entity_type: str) -> bool:
    """True for types of objects that are sold: reviews of sellers, orders and deliveries are not product reviews."""
    return schema_type(entity_type) is not None


def review_element(review: Review, about: Description, url: str, image_root: str) -> str:
    """A review as an element of the feed. `url` is the object's page; image URLs begin with `image_root`."""
    element = Element("review")
    _add(element, "review_id", review.id)
    author = unless_blank(review.user_name)
    _add(SubElement(element, "reviewer"), "name", author or NOBODY, **({} if author else {"is_anonymous": "true"}))
    _add(element, "is_verified_purchase", _boolean(review.facts.verified_purchase))
    _add(element, "is_incentivized_review", _boolean(review.facts.incentivized))
    _add(element, "review_timestamp", timestamp(review.created))
    if title := unless_blank(review.title):
        _add(element, "title", title)
    _add(element, "content", review.text)
    if review.facts.language:
        _add(element, "review_language", review.facts.language.partition("-")[0].lower())
    _add(element, "review_url", url, type="group")
    _add_images(element, [f"{image_root}{image.id}" for image in review.images if image.is_shown])
    scale = {"min": str(LOWEST_RATING), "max": str(HIGHEST_RATING)}
    _add(SubElement(element, "ratings"), "overall", str(rating_number(review.rating)), **scale)
    _add_product(SubElement(SubElement(element, "products"), "product"), review, about, url)
    _add(element, "is_spam", _boolean(False))
    method = "post_fulfillment" if review.facts.is_proven else _COLLECTION_METHODS.get(review.facts.source)
    if method:
        _add(element, "collection_method", method)
    return _to_xml(element)


def _add_images(review: Element, urls: Sequence[str]) -> None:
    addresses = [address for url in urls if (address := _address(url))]
    if addresses:
        images = SubElement(review, "reviewer_images")
        for address in addresses:
            _add(SubElement(images, "reviewer_image"), "url", address)


def _add_product(product: Element, review: Review, about: Description, url: str) -> None:
    """Add the object's codes, name and URL; its id replaces a missing SKU."""
    ids = SubElement(product, "product_ids")
    gtins = [gtin for gtin in about.gtins if _GTIN.fullmatch(gtin)]
    skus = about.skus or (review.entity.id,)
    for name, values in (("gtin", gtins), ("mpn", about.mpns), ("sku", skus), ("brand", about.brands)):
        if values:
            group = SubElement(ids, f"{name}s")
            for value in values:
                _add(group, name, value)
    if title := about.name or unless_blank(review.entity_name):
        _add(product, "product_name", title)
    _add(product, "product_url", url)


def _address(url: str) -> str | None:
    """An http or https URL in the characters of RFC 3986; None if its host is no domain name with a dot, or follows
    user information."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host = _host(parts.netloc)
    if parts.scheme not in ("http", "https") or host is None:
        return None
    path, query, fragment = (
        quote(_BARE_PERCENT.sub("%25", part), safe=_SAFE_IN_URLS + more)
        for part, more in ((parts.path, ""), (parts.query, "?"), (parts.fragment, "?"))
    )
    return parts._replace(netloc=host, path=path, query=query, fragment=fragment).geturl()


@lru_cache(maxsize=256)
def _host(text: str) -> str | None:
    """A host and its port in ASCII; None if it is no domain name with a dot. An international one takes long."""
    name, colon, port = text.partition(":")
    try:
        host = f"{in_ascii(name)}{colon}{port}"
    except ValueError:
        return None
    return host if _HOST.fullmatch(host) else None


def _add(parent: Element, name: str, text: str, **attributes: str) -> None:
    SubElement(parent, name, attributes).text = _NOT_XML.sub("\ufffd", text)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _to_xml(element: Element) -> str:
    return tostring(element, encoding="unicode") + "\n"
