"""`plaudit privacy erase`: removes the data of a person."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from domain.quantities import quantity
from domain.reviews import ModerationAction
from messaging.dead_letters_replays import letter_id
from messaging.envelope import Envelope
from messaging.kafka.lag import ConsumerLag
from messaging.kafka.publisher import Publisher
from messaging.topics import Topic, TopicNames
from plaudit.config import Settings
from plaudit.errors import CommandError
from plaudit.processes.waiting import patiently
from plaudit.terminal import Terminal
from plaudit.tools.privacy import letters_about
from plaudit.tools.servers import reached
from storage.outbox import Outbox
from storage.privacy.erasures import Erasures
from storage.privacy.repository import PersonalData

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
        erasures = Erasures(database, settings.privacy.keys())
        # Mailers and replays heed the mark, also if the rest is cut short, as by a server that goes away.
        erasure = await erasures.begin(customer_id, datetime.now(UTC))
        # Mails accepted before the mark are sent without a further look at it.
        mails = await data.forget_mails()
        exclude_letters = partial(_exclude_letters, settings, erasures, data, customer_id)
        with progress.status("Searching dead letters"):
            letters = await exclude_letters()
            # Letters that came meanwhile aren't replayed from now on.
            await erasures.renew(erasure, datetime.now(UTC))
        with progress.status("Waiting for replays from before the mark"):
            if settings.kafka_connection().idempotence:
                await _await_backlog(settings, progress, owed, wait, "only reviews and waiting mails were removed")
            reviews += await _delete_reviews(data, publisher, settings.topics, wait)
        with progress.status("Searching new dead letters"):
            # The mark tells letters that name the person, not those that name only their order.
            letters |= await exclude_letters()
        with progress.status("Removing the person from other records"):
            reviews += await data.remove_damaged_reviews()
            counts = {"reviews": reviews} | await forget_everywhere(data)
            counts["mails"] += mails
            await erasures.complete(erasure, datetime.now(UTC), counts)
            # A mailer that checked before the mark was set has stored its mails by now, or will check again.
            await data.forget_mails()
    _report(out, counts, sorted(data.damaged), len(letters), settings.kafka.retention_days)


async def forget_everywhere(data: PersonalData) -> dict[str, int]:
    """Erase a person from everything but their reviews; returns the number of documents by kind.

    Can be repeated if cut short: reports are found by the mail addresses in the orders, so they come before those.
    """
    # First: a command that is applied meanwhile conflicts with this, or is found afterwards in what it wrote.
    waiting = await data.remove_parked_feedback() + await data.forget_parked()
    counts = {"reports": await data.forget_reports(), "votes": await data.forget_votes()}
    counts |= await data.orders.forget()
    counts["images"] = await data.forget_images()
    counts["mails"] = await data.forget_mails()
    counts["reminders"] = await data.forget_reminders()
    counts["reviewTokens"] = await data.forget_tokens()
    counts["waiting"] = waiting
    counts["edits"] = await data.forget_in_audit_log()
    return counts


def _report(out: Terminal, counts: Mapping[str, int], damaged: list[str], letters: int, retention_days: int) -> None:
    out.set_result({**counts, "deadLetters": letters, "retentionDays": retention_days, "damaged": damaged})
    if damaged:
        out.print(
            f"{quantity(len(damaged), 'damaged document')}: {', '.join(damaged)}. The reviews among them were deleted, "
            "and the person was removed from the others. `plaudit doctor` finds such returns, and `plaudit migrate` "
            "lists what is lost."
        )
    out.print(
        f"Deleted {quantity(counts['reviews'], 'review')} with all images, "
        f"{quantity(counts['images'], 'other image')}, {quantity(counts['votes'], 'vote')} and "
        f"{quantity(counts['mails'], 'unsent mail')}; removed the person from "
        f"{quantity(counts['reports'], 'report')}, {quantity(counts['orders'], 'order')}, "
        f"{quantity(counts['returns'], 'return')}, {quantity(counts['waiting'], 'waiting command')} and "
        f"{quantity(counts['edits'], 'entry', 'entries')} of the audit log about edits and deleted returns. "
        "The erasure is recorded."
    )
    days = quantity(retention_days, "day")
    out.print(
        f"Kafka's records can't be changed: {quantity(letters, 'dead letter')}, and the messages of the last "
        f"days, are deleted when the retention of their topics expires ({days} as configured). `plaudit dlq "
        "replay` skips these letters."
    )


async def _await_backlog(settings: Settings, progress: Terminal, owed: Outbox, wait: float, so_far: str) -> None:
    """Wait until workers have processed what was published so far: after the erasure they would bring it back."""
    connection = settings.kafka_connection()
    if not connection.idempotence:
        # Such as the broker of `plaudit up` without Java: its answer about a group's offsets can't be parsed.
        progress.print(
            "This broker doesn't report pending messages: run this again once all messages sent so far are processed."
        )
        return
    try:
        async with ConsumerLag(connection, settings.topics) as lag, asyncio.timeout(wait):
            # Requested replays publish to the other topics, some of them after the current ends.
            await _await_ends(lag, (Topic.DEAD_LETTER_COMMANDS,))
            await owed.settle_current()
            await _await_ends(lag, _PERSONAL_TOPICS)
    except TimeoutError:
        raise CommandError(
            f"Workers haven't processed earlier messages within {wait:g} s, and {so_far}. Check that a "
            "worker is running, then run this again, or allow more time with --wait."
        ) from None


async def _await_ends(lag: ConsumerLag, topics: Collection[Topic]) -> None:
    """Wait until workers have processed these topics up to their current ends."""
    ends = await patiently("Kafka", partial(lag.ends, *topics))
    while ends:
        ends = await patiently("Kafka", partial(lag.unapplied, ends))
        await asyncio.sleep(_PAUSE_S)


async def _delete_reviews(data: PersonalData, publisher: Publisher, topics: TopicNames, wait: float) -> int:
    envelope = Envelope("/plaudit/privacy")
    topic = topics.name(Topic.MODERATION_COMMANDS)
    deleted: set[str] = set()
    try:
        async with asyncio.timeout(wait):
            while ids := await data.review_ids(_BATCH):
                fresh = [id for id in ids if id not in deleted]
                if not fresh and set(damaged := await data.undeletable_reviews(ids)) == set(ids):
                    raise CommandError(
                        f"{quantity(len(damaged), 'review')} can't be deleted because of damaged fields, and the "
                        f"erasure isn't complete: {', '.join(damaged)}. `plaudit migrate` repairs what it can, and "
                        "lists what is lost: set those fields in MongoDB, then run this again."
                    )
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


async def _exclude_letters(settings: Settings, erasures: Erasures, data: PersonalData, customer_id: str) -> set[str]:
    """Exclude dead letters about a person from replays, and return their ids.

    Before the orders are erased: their ids and addresses identify letters about the person.
    """
    found = letters_about(settings, customer_id, await data.orders.ids(), await data.orders.addresses())
    letters = {letter_id(letter) async for letter in found}
    await erasures.exclude(letters, datetime.now(UTC))
    return letters
