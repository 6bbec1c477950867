"""`plaudit privacy export`: writes the data of a person."""

import sys
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from api.audit import AuditRow
from api.feedback import ReportRow
from api.returns.rows import return_row
from api.reviews.rows import review_details
from domain.feedback import Vote, VoteKey
from domain.feedback_reports import Report
from domain.images import StoredImage
from domain.moderation import Moderation
from domain.privacy import MessageSearch
from domain.returns import Return
from domain.timestamps import from_milliseconds, in_utc, timestamp
from messaging.dead_letters_replays import person_key, text_of
from messaging.decoding import RawRecord
from messaging.feedback import feedback_value
from messaging.images import image_command_value
from plaudit.config import Settings
from plaudit.terminal import Terminal, shown_json
from plaudit.tools.dead_letters import Filter, dead_letters
from plaudit.tools.servers import reached
from plaudit.tools.whole_files import whole_file
from storage.privacy.repository import PersonalData
from storage.review_tokens import TokenUse
from storage.stores import StoreRepository


async def export_person(settings: Settings, progress: Terminal, customer_id: str, output: Path | None) -> None:
    """Write all data of a person as one JSON document, without `output` to standard output."""
    async with reached(settings) as (database, _):
        with progress.status("Searching the database"):
            data = PersonalData(database, customer_id)
            stores = {store.id: store for store in await StoreRepository(database).all()}
            orders = {order.id: order for order in await data.orders.all()}
            addresses = await data.orders.addresses()
            document: dict[str, Any] = {
                "customerId": customer_id,
                "at": datetime.now(UTC),
                "reviews": [_without(review_details(each, stores), "moderator") for each in await data.reviews()],
                "orders": [_json_or_text(order.body) for order in orders.values()],
                # Before the returns: one that is created meanwhile is in at least one of the lists.
                "waitingReturns": [_json_or_text(each.value) for each in await data.parked_returns()],
                "returns": [_without_order(each) for each in await data.orders.returns()],
                "remindersSent": (reminders := await data.reminders()).count,
                "latestReminders": reminders.times,
                "usedReviewTokens": [_token_use(each) for each in await data.used_tokens()],
                "images": [_image(each) for each in await data.images()],
                "mailsNotSentYet": [_json_or_text(value) for value in await data.waiting_mails()],
                "moderation": [{**AuditRow.of(each), "at": each.at} for each in await data.audit_entries()],
                "waitingModeration": [_parked_command(each) for each in await data.parked_commands()],
                "waitingImageCommands": [
                    image_command_value(each.command) for each in await data.parked_image_commands()
                ],
                "votes": [_vote(*each) for each in await data.votes()],
                "reports": [_report(each) for each in await data.reports()],
                "waitingFeedback": [feedback_value(each) for each in await data.parked_feedback()],
            }
    with progress.status("Searching dead letters"):
        document["deadLetters"] = [
            {"topic": r.topic, "partition": r.partition, "offset": r.offset, "value": _json_or_text(r.value or b"")}
            async for r in letters_about(settings, customer_id, orders, addresses)
        ]
    options = orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATETIME
    content = shown_json(orjson.dumps(document, default=_in_json, option=options).decode()).encode()
    if output is None:
        sys.stdout.buffer.write(content + b"\n")
        return
    with whole_file(output) as file:
        file.write(content)


async def letters_about(
    settings: Settings, customer_id: str, order_ids: Collection[str], addresses: Collection[str]
) -> AsyncIterator[RawRecord]:
    """The dead letters about a person, also by one of their orders or mail addresses."""
    search, keys = MessageSearch(customer_id, order_ids, addresses), {customer_id, *order_ids}
    async for letters in dead_letters(settings, Filter()):
        for letter in letters:
            if person_key(letter) in keys or search.is_about(letter.value or b""):
                yield letter


def _in_json(value: object) -> str:
    """A time as in the API. In a damaged document, a value can have any other type."""
    return timestamp(in_utc(value)) if isinstance(value, datetime) else str(value)


def _without_order(stored: Return) -> dict[str, Any]:
    """A return without its order, which is elsewhere in the document."""
    row = return_row(stored, None)
    lines = [_without(line, "returnId", "availableQuantity") for line in row["lineItems"]]
    return {**_without(row, "order", "currency"), "lineItems": lines}


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _token_use(token: TokenUse) -> dict[str, Any]:
    """The use of a review token; the token itself isn't stored."""
    return {
        "orderId": token.line.order_id,
        "orderLineItemId": token.line.line_id,
        "productId": token.line.product_id,
        "reviewId": token.review_id,
        "at": token.at,
    }


def _image(image: StoredImage) -> dict[str, Any]:
    """An image that the person uploaded, or of one of their reviews; the file is at `/api/images/{id}`."""
    return {
        "id": image.id,
        "state": image.state,
        "width": image.width,
        "height": image.height,
        "reviewId": image.review_id,
        "at": image.at,
    }


def _parked_command(command: Moderation) -> dict[str, Any]:
    """A moderation command that waits for its review."""
    return {
        "reviewId": command.review_id,
        "action": command.action,
        "at": command.at,
        "moderator": command.moderator,
        "reason": command.reason,
    }


def _vote(key: VoteKey, vote: Vote) -> dict[str, Any]:
    at = from_milliseconds(vote.position.timestamp)
    return {"reviewId": key.review_id, "helpful": vote.helpful, "at": timestamp(at)}


def _report(report: Report) -> dict[str, Any]:
    """A report, without the moderator who settled it."""
    row = ReportRow.of(report)
    settled = row["settled"] and _without(row["settled"], "moderator")
    return {**row, "reviewId": report.review_id, "settled": settled}


def _json_or_text(value: bytes) -> Any:
    """A stored value in the document: compact JSON, since indentation can make it hundreds of times as long; as text if
    it is no JSON, or is nested too deeply to be written."""
    try:
        return orjson.Fragment(orjson.dumps(orjson.loads(value)))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text_of(value)
