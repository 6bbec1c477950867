"""The AsyncAPI document follows the standard and matches the messages."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from messaging.asyncapi import CHANNELS, asyncapi_document
from messaging.envelope import Envelope
from messaging.mails import MailCommand, mail_command_message
from messaging.orders import order_event
from messaging.reviews_state import review_state, state_record, tombstone
from messaging.topics import TopicNames
from tests.support.documents import ROOT
from tests.unit.test_reviews_topic import REVIEW

NAMES = TopicNames("plaudit.")


def _values_of(name: str, part: Any) -> Iterator[Any]:
    """The values of all members called `name` within a part of the document."""
    if isinstance(part, dict):
        yield from (value for member, value in part.items() if member == name)
        for each in part.values():
            yield from _values_of(name, each)
    elif isinstance(part, list):
        for each in part:
            yield from _values_of(name, each)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return asyncapi_document(NAMES, "1")


def test_discriminators_are_property_names(document: dict[str, Any]) -> None:
    """OpenAPI's discriminator objects are rejected by AsyncAPI parsers."""
    assert set(_values_of("discriminator", document)) == {"action", "kind"}


def test_types_match_the_records(document: dict[str, Any]) -> None:
    mail = MailCommand(id="m-1", template="t", to="a@example.org", subject="s", text="t", html="h")
    records = {
        "MailCommand": mail_command_message(NAMES, Envelope("/test"), mail),
        "ReviewState": state_record("p.reviews", review_state(REVIEW)),
        "ReviewGone": tombstone("p.reviews", "r-1"),
    }
    for name, record in records.items():
        headers = document["components"]["messages"][name]["headers"]["properties"]
        assert headers["ce_type"]["const"].encode() == dict(record.headers)["ce_type"], name


def test_every_outgoing_message_has_a_type(document: dict[str, Any]) -> None:
    events = document["channels"]["events"]["messages"]
    headers = {name: document["components"]["messages"][name]["headers"]["properties"] for name in events}
    assert headers == {name: {"ce_type": {"const": f"plaudit.{name}"}} for name in events}


def test_examples_of_incoming_messages_are_valid(document: dict[str, Any]) -> None:
    messages = document["components"]["messages"]
    for channel in CHANNELS.values():
        for name, adapter in channel.messages.items() if channel.direction == "in" else ():
            for example in messages[name]["examples"]:
                adapter.validate_json(json.dumps(example["payload"]))


def test_order_event_documents_other_formats(document: dict[str, Any]) -> None:
    described = document["components"]["messages"]["OrderEvent"]["payload"]["description"]
    assert "Shopify" in described
    (page,) = re.findall(r"docs/[a-z]+\.md", described)
    (section,) = re.findall('"(.+?)"', described)
    assert f"## {section}\n" in (ROOT / page).read_text()
    order_event(b'{"id": 1, "line_items": [], "financial_status": "paid", "created_at": "2026-03-14"}')
