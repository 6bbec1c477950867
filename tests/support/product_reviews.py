"""Google's product review feed, as Google reads it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lxml import etree

SCHEMA: Final = etree.XMLSchema(etree.parse(Path(__file__).with_name("product_reviews.xsd")))


class FeedReader:
    """Parses a feed in pieces and yields each review once it is complete, keeping little more than one in memory.

    Raises etree.XMLSyntaxError for invalid XML or a violation of the schema.
    """

    def __init__(self) -> None:
        self._parser = etree.XMLPullParser(("end",), tag="review", schema=SCHEMA)

    def reviews(self, chunk: bytes) -> Iterator[etree._Element]:
        """The reviews that end in this chunk."""
        self._parser.feed(chunk)
        for _, review in self._parser.read_events():
            yield review
            review.clear()
            while review.getprevious() is not None:
                del review.getparent()[0]

    def close(self) -> etree._Element:
        """The root of the whole feed."""
        return self._parser.close()


def reviews_in(feed: bytes) -> list[dict[str, str]]:
    """Texts of each review's elements by path. The feed must match the schema."""
    root = etree.fromstring(feed)
    SCHEMA.assertValid(root)
    return [_texts(review) for review in root.iterfind("reviews/review")]


def _texts(review: etree._Element) -> dict[str, str]:
    tree = etree.ElementTree(review)
    return {tree.getpath(each).removeprefix("/review/"): each.text or "" for each in review.iter() if not len(each)}
