"""Every field of every body and topic: another letter case, a misspelling, null or a repeat has its defined effect or
is reported."""

import asyncio
import json
import re
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_type_hints
from unittest.mock import MagicMock, Mock

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter
from pydantic.alias_generators import to_snake

from api import feedback, named_reviews
from api.app import ROUTERS
from api.web.bodies import JsonBody
from api.web.ignored import ignored_header
from consumers import worker
from consumers.inbox import Inbox
from consumers.mails import mailer
from messaging import mails, readers
from messaging.asyncapi import CHANNELS
from messaging.feedback import FEEDBACK_COMMAND
from messaging.orders import READER as ORDERS
from messaging.reading import Read, Reader
from messaging.reading_errors import InvalidContentError
from messaging.returns import RETURN_COMMAND
from messaging.reviews import READ_ONE, READ_SEVERAL
from messaging.schemas import PATTERN_MESSAGES
from messaging.stores import STORE_UPDATE
from messaging.topics import CONSUMED, Topic
from storefront.app import ROUTERS as STOREFRONT_ROUTERS
from storefront.app import add_storefront
from tests.support.app import app_without_servers
from tests.support.interface import BODIES, IMAGE, MESSAGES, REVIEW, STOREFRONT
from tests.support.readings import (
    KnownField,
    fields_in,
    letter_cases,
    misspelt,
    objects_in,
    renamed,
    twice,
    with_value,
    without,
    written,
)

ROOT = Path(__file__).parents[2]

READERS_OF_TOPICS: Final[dict[Topic, Reader[Any]]] = {
    **{topic: reader for topic, reader in readers.READERS.items() if isinstance(reader, Reader)},
    Topic.REVIEW_SUBMISSIONS: READ_ONE,
    Topic.ORDER_EVENTS: ORDERS,
    Topic.MAIL_COMMANDS: mails.READER,
}
"""The reader of submissions reads one review; `READ_SEVERAL` reads an array."""

FILES = {"POST /api/images", f"POST {STOREFRONT}/images"}
"""Operations whose body isn't JSON."""

TOLERANT = {
    *("POST /api/customerReviews", "POST /api/customerReviews/reviewList", "POST /api/customerReviews/changes"),
    *("POST /api/customerReviews/search", "POST /api/customerReviews/counts"),
    *("POST /api/rating/entityRating", "POST /api/return/search", "POST /api/return", "PUT /api/return"),
    *("POST /api/return/counts", "POST /api/orders/search", "POST /api/rating/objects"),
    *(Topic.REVIEW_SUBMISSIONS, Topic.REVIEW_CHANGES, Topic.ORDER_EVENTS, Topic.MAIL_COMMANDS),
}
"""Sources that ignore unknown fields and name them. All others configure or act, and refuse them."""

IN_PART = {
    "POST /api/stores/{storeId}/moderationRules/try": {"TriedReview"},
    Topic.RETURN_COMMANDS: {"NewReturn", "NewReturnLine", "ReturnChanges", "ReturnId", "ReturnLineFields"},
}
"""Parts that may have unknown fields although their source refuses them."""


def _bodies() -> dict[str, JsonBody[Any]]:
    found: dict[str, JsonBody[Any]] = {
        "DELETE /api/customerReviews": named_reviews.DELETED,
        "DELETE /api/customerReviews/{id}/votes": feedback.GIVEN_VOTER,
    }
    routers = (*ROUTERS, *STOREFRONT_ROUTERS)
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        for needed in route.dependant.dependencies:
            if isinstance(needed.call, JsonBody):
                found |= {f"{method} {route.path}": needed.call for method in route.methods or ()}
    return found


READERS = _bodies()


def messages_of(topic: Topic) -> list[tuple[Reader[Any], Any]]:
    """The samples of a topic, each with its reader."""
    reader = READERS_OF_TOPICS[topic]
    return [(READ_SEVERAL if isinstance(sample, list) else reader, sample) for sample in MESSAGES[topic]]


class Case(NamedTuple):
    """A sample of a body or a message, and one of its fields."""

    source: str
    reader: Reader[Any]
    sample: Any
    field: KnownField


CASES = [
    *(
        Case(name, READERS[name].reader, sample, field)
        for name, sample in BODIES.items()
        if name in READERS
        for field in fields_in(sample, READERS[name].reader.shape)
    ),
    *(
        Case(topic, reader, sample, field)
        for topic in MESSAGES
        for reader, sample in messages_of(topic)
        for field in fields_in(sample, reader.shape)
    ),
]
SOURCES = (*BODIES, *MESSAGES)
each_source = pytest.mark.parametrize("source", SOURCES)


def cases_of(source: str) -> list[Case]:
    """A case for each field. A test of a source tries all, as a test for each field takes longer than what it tests."""
    return [case for case in CASES if case.source == source]


def _plain(content: Any) -> Any:
    """The set fields of a content as plain values."""
    if isinstance(content, list):
        return [_plain(each) for each in content]
    return content.model_dump(exclude_unset=True) if isinstance(content, BaseModel) else content


def _codes(reader: Reader[Any], value: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidContentError) as refused:
        reader.read(written(value))
    return [(error.pointer, error.code) for error in refused.value.errors]


def _read(reader: Reader[Any], value: Any) -> Read[Any] | None:
    try:
        return reader.read(written(value))
    except InvalidContentError:
        return None


def _pointer(case: Case, name: str) -> str:
    return "".join(f"/{part}" for part in (*case.field.place[:-1], name))


async def test_every_body_has_a_sample() -> None:
    async with app_without_servers() as app:
        add_storefront(app)
        document = app.openapi()
    operations = {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    with_body = {name.replace(":path}", "}") for name, operation in operations.items() if "requestBody" in operation}
    assert with_body - FILES == set(BODIES) == set(READERS)


def test_every_consumed_topic_has_a_sample() -> None:
    read = {topic for topic, channel in CHANNELS.items() if channel.direction != "out"}
    assert read | {Topic.MAIL_COMMANDS} == set(MESSAGES)


def inboxes(monkeypatch: pytest.MonkeyPatch) -> list[Inbox[Any]]:
    """The inboxes of worker and mailer."""
    subscribed, anything = Mock(side_effect=EOFError), MagicMock()
    worker_running = worker.running_worker(anything, anything, remember=anything, only=CONSUMED)
    processes = worker_running, mailer.running_mailer(anything)
    for module, running in zip((worker, mailer), processes, strict=True):
        monkeypatch.setattr(module, "subscribed_broker", subscribed)
        with pytest.raises(EOFError):
            asyncio.run(running.__aenter__())
    return [inbox for call in subscribed.call_args_list for inbox in call.args[2]]


def test_consumers_accept_what_their_readers_return(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {inbox.topic: inbox for inbox in inboxes(monkeypatch)}
    assert found.keys() == set(CONSUMED)
    for topic, inbox in found.items():
        (received,) = get_args(get_type_hints(type(inbox.handle).__call__)["batch"])
        (taken,) = get_args(received)
        for sample in MESSAGES[topic]:
            TypeAdapter(taken).validate_python(readers.READERS[topic](written(sample)), strict=True)


def test_every_field_is_in_a_sample() -> None:
    for source in SOURCES:
        tried = {(case.field.parent.name, case.field.known.name) for case in cases_of(source)}
        shapes = (
            [READERS[source].reader.shape] if source in BODIES else [r.shape for r, _ in messages_of(Topic(source))]
        )
        known = {(each.name, f.name) for shape in shapes for each in objects_in(shape) for f in each.fields.values()}
        assert tried == known, source


def test_incoming_json_is_read_in_one_place_only() -> None:
    reading = re.compile(r"validate_json\(|\.validate_json\b")
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ("api", "storefront", "consumers", "messaging")
        for path in (ROOT / room).rglob("*.py")
        if reading.search(path.read_text())
    }
    assert found == {"messaging/reading.py"}


def test_every_pattern_has_a_message() -> None:
    for name, body in READERS.items():
        for pattern in re.findall(r"'pattern': '((?:[^'\\]|\\.)*)'", repr(body.openapi)):
            assert pattern.encode().decode("unicode_escape") in PATTERN_MESSAGES, name
    assert not any(set(message) & set("^$[]\\") for message in PATTERN_MESSAGES.values())


@each_source
def test_sample_is_read_completely(source: str) -> None:
    samples = [(READERS[source].reader, BODIES[source])] if source in BODIES else messages_of(Topic(source))
    for reader, sample in samples:
        assert reader.read(written(sample)).ignored == ()


@each_source
def test_letter_case_makes_no_difference(source: str) -> None:
    for case in cases_of(source):
        plain = case.reader.read(written(case.sample))
        for name in letter_cases(case.field.name):
            found = case.reader.read(written(renamed(case.sample, case.field.place, name)))
            assert (_plain(found.content), found.ignored) == (_plain(plain.content), ()), case.field.place


@each_source
def test_misspelt_field_is_refused_or_named(source: str) -> None:
    for case in cases_of(source):
        tolerant = source in TOLERANT or case.field.parent.name in IN_PART.get(source, ())
        for name in misspelt(case.field):
            value = renamed(case.sample, case.field.place, name)
            if not tolerant:
                with pytest.raises(InvalidContentError) as refused:
                    case.reader.read(written(value))
                named = [(error.pointer, error.code) for error in refused.value.errors if error.pointer.endswith(name)]
                assert named == [(_pointer(case, name), "unknown-field")]
                assert f"Did you mean {case.field.name}?" in str(refused.value) or len(name) < 4
            elif found := _read(case.reader, value):
                path = ".".join(part for part in (*case.field.place[:-1], name) if isinstance(part, str))
                assert found.ignored == (path,)
                rest = case.reader.read(written(without(case.sample, case.field.place)))
                assert _plain(found.content) == _plain(rest.content), path


@each_source
def test_null_is_missing_or_clears(source: str) -> None:
    for case in cases_of(source):
        null, missing = (
            _read(case.reader, value)
            for value in (with_value(case.sample, case.field.place, None), without(case.sample, case.field.place))
        )
        assert (null is None) == (missing is None), case.field.place
        if null and missing:
            assert null.content == missing.content, case.field.place
            # Settings distinguish the two: null clears nullable fields, and no others.
            if case.field.parent.is_closed:
                clears = _plain(null.content) != _plain(missing.content)
                assert clears is case.field.known.shape.takes_null, case.field.place


def test_guide_names_the_fields_that_null_clears() -> None:
    guide = (ROOT / "docs" / "http.md").read_text()
    (clause,) = re.findall(r"(?s)^- null means the same as a missing field, (.*?)\.\n- ", guide, re.MULTILINE)
    clearing = {"PUT /api/stores/{storeId}", "PUT /api/settings"}
    # Rules are always replaced as a whole, and the id comes from the path.
    fields = {
        ".".join(map(str, case.field.place))
        for case in CASES
        if case.source in clearing and case.field.known.shape.takes_null and "moderationRules" not in case.field.place
    }
    assert set(re.findall(r"`([\w.]+)`", clause)) - {"PUT"} == fields - {"id"}


@each_source
def test_repeated_field_is_refused(source: str) -> None:
    for case in cases_of(source):
        for name in (case.field.name, *letter_cases(case.field.name)):
            found = _codes(case.reader, twice(case.sample, case.field.place, name))
            assert {code for _, code in found} == {"duplicate-field"}, case.field.place
            assert found[0][0].lower() == _pointer(case, name).lower()


@each_source
def test_whole_numbers_and_words_are_normalized(source: str) -> None:
    for case in cases_of(source):
        shape, value = case.field.known.shape, _at(case.sample, case.field)
        plain = _plain(case.reader.read(written(case.sample)).content)
        if shape.is_whole and isinstance(value, int):
            assert _with_value(case, float(value)) == plain, case.field.place
            for wrong in (True, value + 0.5, f"{value}"):
                if not (source == Topic.ORDER_EVENTS and isinstance(wrong, str)):
                    assert _read(case.reader, with_value(case.sample, case.field.place, wrong)) is None
        for word in letter_cases(value) if shape.words and isinstance(value, str) else ():
            assert _with_value(case, word) == plain, case.field.place


def _with_value(case: Case, value: object) -> Any:
    """The content of the sample with another value in the field."""
    return _plain(case.reader.read(written(with_value(case.sample, case.field.place, value))).content)


def _at(sample: Any, field: KnownField) -> Any:
    for step in field.place:
        sample = sample[step]
    return sample


def test_hidden_fields_are_ignored() -> None:
    reader = READERS["POST /api/customerReviews"].reader
    hidden = {"commandId": "c", "source": "no source", "writtenDate": "no date", "hiddenImages": "x", "via": "api"}
    hidden |= {"formerId": "f", "editor": "x"}
    found = reader.read(written([{**REVIEW, **hidden, "verifiedPurchase": True}]))
    assert found.ignored == (*hidden, "verifiedPurchase")
    assert {name: getattr(found.content[0], to_snake(name)) for name in hidden} == dict.fromkeys(hidden)


@pytest.mark.parametrize(
    ("names", "header"),
    [
        (["a", "b", "a"], b"a, b"),
        (["ä,\r\n: x", "lineItems.x"], b"%C3%A4%2C%0D%0A%3A%20x, lineItems.x"),
        (["\x00"], b"%00"),
        (["x" * 2_000, "b"], b"..."),
        (["x" * 1_000, "y" * 100], b"x" * 1_000 + b", ..."),
    ],
)
def test_header_of_ignored_fields(names: list[str], header: bytes) -> None:
    assert ignored_header(names) == header


def test_errors_contain_neither_patterns_nor_input() -> None:
    reader = READERS["POST /api/customerReviews"].reader
    with pytest.raises(InvalidContentError) as refused:
        reader.read(written([{**REVIEW, "title": "secret\x00", "userName": "x" * 129}]))
    assert "secret" not in str(refused.value)
    assert "^" not in str(refused.value)


@pytest.mark.parametrize(
    ("adapter", "message", "errors"),
    [
        (STORE_UPDATE, {"id": "s", "settings": {"reviewsEnabled": "true"}}, {"/settings/reviewsEnabled": "bool-type"}),
        (STORE_UPDATE, {"id": ".."}, {"/id": "unaddressable"}),
        (STORE_UPDATE, {"id": "s", "name": " "}, {"/name": "blank"}),
        (STORE_UPDATE, {"id": "s", "name": "\u200b\u3164"}, {"/name": "blank"}),
        (STORE_UPDATE, {"id": "s", "generalSettings": {}}, {"/generalSettings": "unknown-field"}),
        (
            FEEDBACK_COMMAND,
            {"action": "vote", "reviewId": "r", "userId": "a", "helpful": "x"},
            {"/helpful": "bool-type"},
        ),
        (FEEDBACK_COMMAND, {"reviewId": "r"}, {"/action": "union-tag-not-found"}),
        (FEEDBACK_COMMAND, {"action": ["vote"], "reviewId": "r"}, {"/action": "union-tag-invalid"}),
        (
            RETURN_COMMAND,
            {"action": "create", "return": {"id": "r", "orderId": "o", "lineItems": 5}},
            {"/return/lineItems": "list-type"},
        ),
    ],
)
def test_errors_concern_the_intended_type(
    adapter: TypeAdapter[Any], message: dict[str, Any], errors: dict[str, str]
) -> None:
    with pytest.raises(InvalidContentError) as refused:
        Reader(adapter)(json.dumps(message).encode())
    assert {each.pointer: each.code for each in refused.value.errors} == errors
    for each in refused.value.errors:
        if each.pointer == "/action":
            assert each.message == "Must be one of remove-reply, remove-vote, reply, report, vote"


def test_list_that_is_too_long_is_the_only_error() -> None:
    """Other faults aren't checked: they may be due to letter case alone."""
    review = {**REVIEW, "images": [IMAGE] * 6, "ReviewStatus": "New", "USERNAME": "Ann", "title": 3}
    with pytest.raises(InvalidContentError) as refused:
        READ_SEVERAL.read(json.dumps([review]).encode())
    assert [(each.pointer, each.code) for each in refused.value.errors] == [("/0/images", "too-long")]


@pytest.mark.parametrize(
    ("source", "pointer", "items"),
    [
        (f"POST {STOREFRONT}/reviews", "/images", ["a"] * 6),
        ("PUT /api/settings", "/returnStatuses", [1] * 101),
        ("PUT /api/stores/{storeId}", "/languages", [1] * 101),
        ("POST /api/customerReviews/approve", "/textHashes", dict.fromkeys(map(str, range(1_001)), "a")),
        (Topic.OBJECT_UPDATES, "/gtins", [1] * 101),
        (Topic.MODERATION_VERDICTS, "/labels", [1] * 21),
    ],
)
def test_invalid_items_count_towards_limits(source: str, pointer: str, items: object) -> None:
    """Otherwise a small value has 50,000 errors, which take a second."""
    reader = READERS[source].reader if source in READERS else READERS_OF_TOPICS[Topic(source)]
    assert (pointer, "too-long") in _codes(reader, {pointer[1:]: items})
    assert not any(place.startswith(f"{pointer}/") for place, _ in _codes(reader, {pointer[1:]: items}))


@pytest.mark.parametrize("kind", [tuple[str, ...], set[str], dict[str, str]])
def test_limits_that_count_only_valid_items_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError):
        Reader(TypeAdapter(Annotated[kind, Field(max_length=5)]))


def test_images_may_have_the_form_of_rows() -> None:
    row = {**REVIEW, "images": [{"id": IMAGE, "hidden": True}], "pendingImages": 1}
    assert READ_ONE(json.dumps(row).encode()).images == (IMAGE,)
    for image in ({"id": "none", "hidden": True}, {"id": IMAGE}, {"id": IMAGE, "hide": True}, {"id": 7, "hidden": 1}):
        with pytest.raises(InvalidContentError) as refused:
            READ_ONE(json.dumps({**row, "images": [image]}).encode())
        assert [each.pointer for each in refused.value.errors] == ["/images/0"]


@pytest.mark.parametrize(
    ("modified", "code"),
    [
        (1664855193, "datetime-type"),
        (1664855193.5, "datetime-type"),
        (True, "datetime-type"),
        ([], "datetime-type"),
        ("20221004", "date-time"),
        ("20260314092653", "date-time"),
        (" -1.5e3 ", "date-time"),
        ("yesterday", "datetime-from-date-parsing"),
        pytest.param(f"{'1' * 500_000}x", "datetime-from-date-parsing", id="endless to read in quadratic time"),
        ("2022-10-04T25:00:00Z", "datetime-from-date-parsing"),
        ("2022-10-04T03:46:43.433Z", None),
        ("2022-10-04 03:46", None),
        # Order systems send dates without time, and empty fields.
        ("2022-10-04", None),
        ("", None),
    ],
)
def test_moment_is_a_date_and_a_time(modified: object, code: str | None) -> None:
    order = {"id": "o", "status": "New", "createdDate": "2022-10-04T03:46:43Z", "modifiedDate": modified, "items": []}
    try:
        ORDERS(json.dumps(order).encode())
    except InvalidContentError as refused:
        (error,) = refused.errors
        assert (error.pointer, error.code) == ("/modifiedDate", code)
    else:
        assert code is None
