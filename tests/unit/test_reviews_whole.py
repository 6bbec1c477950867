"""Every field of a review is carried the whole way: a new field that is forgotten on one way fails here."""

import asyncio
import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import orjson
import pytest
from pydantic.alias_generators import to_camel

from api.reviews.rows import review_details
from console.content_hashes import hash_of_review
from domain.delivery import RecordPosition, Written
from domain.moderation_rules import rule_input
from domain.ratings import Entity
from domain.reviews import Content, Review, ReviewStatus
from domain.reviews_facts import Facts, ReasonCode, Reply, Responses, ReviewImage, Source
from domain.stores import Store
from messaging.moderation_rules_trial import TriedReview
from messaging.reviews import SubmittedReview, submissions_in
from messaging.reviews_state import review_state
from messaging.topics import TopicNames
from plaudit.tools.export import review_writer
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.bad_rows import BadRowError
from plaudit.tools.imports.columns import SeenColumns
from plaudit.tools.imports.mapping import ColumnMapping
from plaudit.tools.imports.messages import RowReader
from plaudit.tools.imports.rows import Row
from storage.database import Document
from storage.reviews.documents import EDITABLE, LISTED, document_of, editable_from, review_from
from storage.reviews.edits import update_by_edit
from storefront.reviews import PublicReview, public_review
from storefront.shoppers import Shopper
from storefront.submissions import PageReview
from tests.support.console_pages import text_of
from tests.support.faked_interface import get_page

ROOT: Final = Path(__file__).parents[2]
AT: Final = datetime(2026, 3, 14, 9, 26, 53, 589_000, UTC)
REVIEW: Final = Review(
    *("r", Entity("Product", "p"), "Lens", "s", "u", "Ann", "Sharp", "To the edges", 450, AT, AT + timedelta(days=1)),
    status=ReviewStatus.REJECTED,
    name_wanted=True,
    moderator="Mo",
    moderation_reason="Not about the lens",
    reason_code=ReasonCode.OFF_TOPIC,
    facts=Facts(True, True, Source.IMPORT, "en", is_proven=True, is_language_given=True),
    reply=Reply("Thanks", "Shop", AT, AT),
    responses=Responses(3, 1, 2),
    flags=("links",),
    images=(ReviewImage(str(UUID(int=0)), True, True, AT, True), ReviewImage(str(UUID(int=1)))),
    is_held=True,
    is_announced=True,
    written=Written(RecordPosition(1, 2, 3), (4,)),
    submitted=AT + timedelta(days=2),
    is_uncertain=True,
)
OTHER: Final = Review(
    *("q", Entity("Vendor", "v"), "Cap", "t", "w", "Bob", "Soft", "In the middle", 250, AT - timedelta(days=1), AT),
    moderator="Flo",
    moderation_reason="",
    images=(ReviewImage(str(UUID(int=2))),),
    facts=Facts(source=Source.API, language="de"),
    written=Written(RecordPosition(5, 6, 7), (8,)),
)


def projected(document: Document, projection: Document) -> Document:
    """The document as MongoDB returns it with this projection."""
    is_exclusion = 0 in projection.values()
    return {name: each for name, each in document.items() if name == "_id" or (name in projection) != is_exclusion}


def stored(review: Review) -> Document:
    # Moderation alone writes the reason.
    return document_of(review) | {"moderationReason": review.moderation_reason}


def row(review: Review) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(orjson.dumps(review_details(review, {})))
    return found


def imported(columns: dict[str, Any], *, is_text: bool) -> object:
    """The messages that an import publishes for a row of an export; its images are files."""
    reader = RowReader(SeenColumns(ColumnMapping(), [], [], as_new=False), TopicNames("p."), is_text)
    try:
        found = reader.messages(Row(1, 1, 1, columns))
    except BadRowError as refused:
        return str(refused)
    return [each and each.value for each in (found.submission, *found.followers)]


def imported_from_csv(review: Review) -> object:
    file = io.BytesIO()
    review_writer(file, FileFormat.CSV)(row(review))
    (columns,) = csv.DictReader(io.StringIO(file.getvalue().decode(), newline=""))
    return imported(columns, is_text=True)


def submitted(review: Review) -> SubmittedReview:
    """The row of a review, sent back as a submission."""
    (found,) = submissions_in(orjson.dumps({**row(review), "source": None}))
    return found


def from_page(review: Review) -> SubmittedReview:
    """The same content, sent by the form of a page."""
    given = {**row(review), "images": [image.id for image in review.images]}
    names = given.keys() & set(map(to_camel, PageReview.model_fields))
    page = PageReview.model_validate({name: given[name] for name in names})
    return page.submitted(Shopper(Store("s"), review.entity, "192.0.2.1"))


def console_page(review: Review) -> str:
    """The text on the review's page of the console."""
    path = f"customerReviews/{review.id}"
    return text_of(asyncio.run(get_page(f"/console/reviews/{review.id}", {path: (200, row(review))})).text)


FIELDS: Final = [
    *(each.name for each in fields(Review) if each.name not in ("facts", "responses")),
    *(f"facts.{name}" for name in Facts._fields),
    *(f"responses.{name}" for name in Responses._fields),
]
WORKED_OUT: Final = {"name_wanted", "is_announced", "is_uncertain", "written"}
HIDDEN: Final = WORKED_OUT | {"is_held", "facts.is_proven", "facts.is_language_given"}
OF_OTHERS: Final = {"reply", "responses.helpful", "responses.not_helpful", "responses.reports"}
LASTING: Final = {"id", "entity", "store_id", "user_id", "created", "submitted"}
IN_OTHER_LINES: Final = OF_OTHERS - {"reply"} | {"images"}

WAYS: Final[Mapping[str, tuple[Callable[[Review], object], set[str]]]] = {
    "list": (lambda each: review_from(projected(stored(each), LISTED)), WORKED_OUT - {"name_wanted"}),
    "stored review of an edit": (
        lambda each: editable_from(projected(stored(each), EDITABLE)),
        OF_OTHERS | {"is_announced", "is_uncertain"},
    ),
    "update by an edit": (update_by_edit, OF_OTHERS | LASTING | WORKED_OUT - {"written"}),
    "topic": (review_state, HIDDEN | {"submitted"}),
    "row": (row, HIDDEN),
    # Its stars are drawn.
    "page of the console": (console_page, HIDDEN | {"submitted", "rating"}),
    "public review": (
        public_review,
        HIDDEN
        | (LASTING - {"id", "created"})
        | {"entity_name", "modified", "status", "facts.source", "flags", "responses.reports"}
        | {"moderator", "moderation_reason", "reason_code"},
    ),
    "import of an export": (lambda each: imported(row(each), is_text=False), HIDDEN | IN_OTHER_LINES | {"submitted"}),
    "import of a table": (imported_from_csv, HIDDEN | IN_OTHER_LINES | {"submitted", "reply", "flags"}),
}
"""The ways of a stored review, each with the fields that it leaves out on purpose."""

WAYS_OF_CONTENT: Final[Mapping[str, tuple[Callable[[Review], object], set[str]]]] = {
    "edit": (lambda each: submitted(each).content, set()),
    "new review": (lambda each: submitted(each).accepted("r", AT).content, set()),
    "form of a page": (lambda each: from_page(each).content, {"entity_name"}),
    "rules": (rule_input, {"entity_name", "images"}),
    "trial of rules": (
        lambda each: rule_input(TriedReview.model_validate(row(each)).as_review(0, "s")),
        {"entity_name", "images"},
    ),
    "guard of the console": (lambda each: hash_of_review(row(each)), {"entity_name"}),
}
"""The same for the part that its author writes."""


def changed(name: str) -> Review:
    """REVIEW with one field of OTHER."""
    whole, _, part = name.partition(".")
    value = getattr(OTHER, whole)
    if part:
        value = getattr(REVIEW, whole)._replace(**{part: getattr(value, part)})
    return replace(REVIEW, **{whole: value})


def left_out(way: Callable[[Review], object]) -> set[str]:
    """The fields that make no difference on this way."""
    unchanged = way(REVIEW)
    return {name for name in FIELDS if way(changed(name)) == unchanged}


def test_samples_differ_in_every_field() -> None:
    assert left_out(lambda review: review) == set()


@pytest.mark.parametrize("name", WAYS)
def test_every_field_is_carried(name: str) -> None:
    way, on_purpose = WAYS[name]
    assert left_out(way) == on_purpose


@pytest.mark.parametrize("name", WAYS_OF_CONTENT)
def test_all_that_an_author_writes_is_carried(name: str) -> None:
    way, on_purpose = WAYS_OF_CONTENT[name]
    assert left_out(way) & {*Content._fields} == on_purpose


def test_widget_knows_the_fields_of_a_public_review() -> None:
    types = (ROOT / "storefront/static/types.d.ts").read_text()
    (review,) = re.findall(r"^export interface Review {\n(.*?)^}", types, re.MULTILINE | re.DOTALL)
    assert {*re.findall(r"^  (\w+):", review, re.MULTILINE)} == {*PublicReview.__annotations__}


def test_architecture_lists_the_ways() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.partition("## A new field of a review\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([^|-]+?) +\|", section, re.MULTILINE) == ["Way", *WAYS, *WAYS_OF_CONTENT]
