"""`plaudit privacy`: exports or erases the data of a person."""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from api.audit import AuditRow
from api.feedback import ReportRow
from api.returns.rows import return_row
from api.reviews.rows import review_details
from domain.feedback import Vote, VoteKey
from domain.images import StoredImage
from domain.moderation import Moderation
from domain.privacy import is_about
from domain.quantities import quantity
from domain.returns import Return
from domain.reviews import ModerationAction
from domain.timestamps import from_milliseconds, timestamp
from messaging.dead_letters_replays import letter_id, person_key, text_of
from messaging.decoding import RawRecord
from messaging.envelope import Envelope
from messaging.feedback import feedback_value
from messaging.images import image_command_value
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.processes.waiting import patiently
from plaudit.terminal import Terminal, shown_json
from plaudit.tools.dead_letters import Filter, dead_letters
from plaudit.tools.servers import reached
from plaudit.tools.whole_files import whole_file
from storage.database import Database
from storage.outbox import Outbox
from storage.privacy import PersonalData
from storage.privacy_erasures import Erasures
from storage.review_tokens import TokenUse
from storage.stores import StoreRepository

MODERATOR: Final = "plaudit privacy"
REASON: Final = "Erased at the request of the person"

_PERSONAL_TOPICS: Final = (
    Topic.REVIEW_SUBMISSIONS,
    Topic.REVIEW_FEEDBACK,
    Topic.ORDER_EVENTS,
    Topic.RETURN_COMMANDS,
    Topic.IMAGE_UPLOADS,
)
"""The topics whose records bring data of a person into the database."""

_BATCH: Final = 1_000
_PAUSE_S: Final = 0.2


async def export_person(settings: Settings, progress: Terminal, customer_id: str, output: Path | None) -> None:
    """Write all data of a person as one JSON document, without `output` to standard output."""
    async with reached(settings) as (database, _):
        with progress.status("Searching the database"):
            data = PersonalData(database, customer_id)
            stores = {store.id: store for store in await StoreRepository(database).all()}
            orders = {order.id: order for order in await data.orders()}
            addresses = await data.addresses()
            document: dict[str, Any] = {
                "customerId": customer_id,
                "at": datetime.now(UTC),
                "reviews": [_without(review_details(each, stores), "moderator") for each in await data.reviews()],
                "orders": [_json_or_text(order.body) for order in orders.values()],
                # Before the returns: one that is created meanwhile is in at least one of the lists.
                "waitingReturns": [_json_or_text(each.value) for each in await data.parked_returns()],
                "returns": [_without_order(each) for each in await data.returns()],
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
                "reports": [{**ReportRow.of(each), "reviewId": each.review_id} for each in await data.reports()],
                "waitingFeedback": [feedback_value(each) for each in await data.parked_feedback()],
            }
    with progress.status("Searching dead letters"):
        document["deadLetters"] = [
            {"topic": r.topic, "partition": r.partition, "offset": r.offset, "value": _json_or_text(r.value or b"")}
            async for r in _letters_about(settings, customer_id, orders, addresses)
        ]
    content = shown_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()).encode()
    if output is None:
        sys.stdout.buffer.write(content + b"\n")
        return
    with whole_file(output) as file:
        file.write(content)


def _without_order(stored: Return) -> dict[str, Any]:
    """A return without its order, which is elsewhere in the document."""
    row = return_row(stored, None)
    lines = [_without(line, "returnId", "availableQuantity") for line in row["lineItems"]]
    return {**_without(row, "order"), "lineItems": lines}


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


async def erase_person(settings: Settings, out: Terminal, progress: Terminal, customer_id: str, wait: float) -> None:
    """Remove all data of a person, and record the erasure; a repetition removes data that arrived since.

    The workers first process what was published before, and then delete the reviews, so that ratings follow; they have
    `wait` seconds for each. Raises CommandError: they take longer.
    """
    async with reached(settings, Topic.MODERATION_COMMANDS) as (database, publisher):
        data = PersonalData(database, customer_id)
        with progress.status("Waiting for earlier messages to be processed"):
            owed = Outbox(database, publisher.publish)
            await _await_backlog(settings, progress, owed, wait, "nothing was removed")
        with progress.status("Deleting reviews"):
            reviews = await _delete_reviews(data, publisher, settings.topics, wait)
        erasures = erasures_of(settings, database)
        # Mailers and replays heed the mark, also if the rest is cut short, as by a server that goes away.
        erasure = await erasures.begin(customer_id, datetime.now(UTC))
        with progress.status("Searching dead letters"):
            # Before the orders are erased: their ids and addresses identify letters about the person.
            found = _letters_about(settings, customer_id, await data.order_ids(), await data.addresses())
            letters = [letter_id(letter) async for letter in found]
        await erasures.exclude(letters, datetime.now(UTC))
        with progress.status("Waiting for replays from before the mark"):
            if settings.kafka_connection().idempotence:
                await _await_backlog(settings, progress, owed, wait, "only reviews were removed")
            reviews += await _delete_reviews(data, publisher, settings.topics, wait)
        with progress.status("Removing the person from other records"):
            counts = {"reviews": reviews} | await forget_everywhere(data)
            await erasures.complete(erasure, datetime.now(UTC), counts)
            # A mailer that checked before the mark was set has stored its mails by now, or will check again.
            await data.forget_mails(datetime.now(UTC))
    out.set_result({**counts, "deadLetters": len(letters), "retentionDays": settings.kafka.retention_days})
    out.print(
        f"Deleted {quantity(counts['reviews'], 'review')} with all images, "
        f"{quantity(counts['images'], 'other image')}, {quantity(counts['votes'], 'vote')} and "
        f"{quantity(counts['mails'], 'unsent mail')}; removed the person from "
        f"{quantity(counts['reports'], 'report')}, {quantity(counts['orders'], 'order')}, "
        f"{quantity(counts['returns'], 'return')}, {quantity(counts['waiting'], 'waiting command')} and "
        f"{quantity(counts['edits'], 'entry', 'entries')} of the audit log about edits and deleted returns. "
        "The erasure is recorded."
    )
    days = quantity(settings.kafka.retention_days, "day")
    out.print(
        f"Kafka's records can't be changed: {quantity(len(letters), 'dead letter')}, and the messages of the last "
        f"days, are deleted when the retention of their topics expires ({days} as configured). `plaudit dlq "
        "replay` skips these letters."
    )


async def forget_everywhere(data: PersonalData) -> dict[str, int]:
    """Erase a person from everything but their reviews; returns the number of documents by kind.

    Can be repeated if cut short: reports are found by the mail addresses in the orders, so they come before those.
    """
    # First: a command that is applied meanwhile conflicts with this, or is found afterwards in what it wrote.
    waiting = await data.remove_parked_feedback() + await data.forget_parked()
    counts = {"reports": await data.forget_reports(), "votes": await data.forget_votes()}
    counts |= await data.forget_orders()
    counts["images"] = await data.forget_images()
    counts["mails"] = await data.forget_mails(datetime.now(UTC))
    counts["reminders"] = await data.forget_reminders()
    counts["reviewTokens"] = await data.forget_tokens()
    counts["waiting"] = waiting
    counts["edits"] = await data.forget_in_audit_log()
    return counts


async def _await_backlog(settings: Settings, progress: Terminal, owed: Outbox, wait: float, so_far: str) -> None:
    """Wait until workers have processed what was published so far: after the erasure they would bring it back."""
    connection = settings.kafka_connection()
    if not connection.idempotence:
        # Such as the broker of `plaudit up` without Java: its answer about a group's offsets can't be parsed.
        progress.print(
            "This broker doesn't report pending messages: run this again once all messages sent so far are processed."
        )
        return
    lag = ConsumerLag(connection, settings.topics)
    try:
        async with asyncio.timeout(wait):
            # Requested replays publish to the other topics, some of them after the current ends.
            await _await_ends(lag, (Topic.DEAD_LETTER_COMMANDS,))
            await owed.settle_before(datetime.now(UTC))
            await _await_ends(lag, _PERSONAL_TOPICS)
    except TimeoutError:
        raise CommandError(
            f"Workers haven't processed earlier messages within {wait:g} s, and {so_far}. Check that a "
            "worker is running, then run this again, or allow more time with --wait."
        ) from None
    finally:
        await lag.stop()


async def _await_ends(lag: ConsumerLag, topics: Collection[Topic]) -> None:
    """Wait until workers have processed these topics up to their current ends."""
    found = await patiently("Kafka", lambda: lag.measure(*topics))
    ends = {place: each.end for place, each in found.items()}
    while any(place in found and found[place].next_offset < end for place, end in ends.items()):
        await asyncio.sleep(_PAUSE_S)
        found = await patiently("Kafka", lambda: lag.measure(*topics))


async def _delete_reviews(data: PersonalData, publisher: Publisher, topics: TopicNames, wait: float) -> int:
    envelope = Envelope("/plaudit/privacy")
    topic = topics.name(Topic.MODERATION_COMMANDS)
    deleted: set[str] = set()
    try:
        async with asyncio.timeout(wait):
            while ids := await data.review_ids(_BATCH):
                fresh = [id for id in ids if id not in deleted]
                command = {"action": ModerationAction.DELETE, "moderator": MODERATOR, "reason": REASON}
                await publisher.publish(
                    [envelope.wrap(topic, id, "review.moderation", {**command, "ids": [id]}) for id in fresh]
                )
                deleted.update(fresh)
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        raise CommandError(
            f"Reviews are not deleted after {wait:g} s, and nothing else was removed. The commands to delete them "
            "are published. Check that a worker is running, then run this again."
        ) from None
    return len(deleted)


def erasures_of(settings: Settings, database: Database) -> Erasures:
    """The repository of erasures, with the configured keys."""
    return Erasures(database, settings.privacy.keys())


async def _letters_about(
    settings: Settings, customer_id: str, order_ids: Collection[str], addresses: Collection[str]
) -> AsyncIterator[RawRecord]:
    async for letters in dead_letters(settings, Filter()):
        for letter in letters:
            is_keyed = person_key(letter) in (customer_id, *order_ids)
            if is_keyed or is_about(letter.value or b"", customer_id, order_ids, addresses):
                yield letter


def _json_or_text(value: bytes) -> Any:
    """A stored value in the document: compact JSON, since indentation can make it hundreds of times as long; as text if
    it is no JSON, or is nested too deeply to be written."""
    try:
        return orjson.Fragment(orjson.dumps(orjson.loads(value)))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text_of(value)
