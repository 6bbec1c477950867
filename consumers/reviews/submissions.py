"""Incoming submissions: their ids, and the records that held them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid5

from consumers.services import Services
from domain.commands import CommandMark
from domain.delivery import RecordPosition, Seen, Written, content_digest
from domain.languages import detectable
from domain.places import bucket_of, placed
from domain.review_tokens import ReviewToken
from domain.reviews import Review, ReviewIdentity
from domain.reviews_edits import Edit, EditRight, merged, message_digest
from domain.reviews_facts import Source
from domain.reviews_refusals import Refusal
from domain.timestamps import from_milliseconds
from messaging.decoding import RawRecord, Received, aged_position
from messaging.envelope import cloud_event_identity
from messaging.reviews import SubmittedReview
from messaging.tracing import cause_of
from storage.reviews.ids import IdHolder, RefusedSubmission

_FROM_A_KEY: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_SUBMISSIONS_WITHOUT_ID: Final = UUID("5f0a2c3e-3f0b-5d7c-9a57-6d1a4f7c9b10")


class Key(NamedTuple):
    """An id, the review that it should stand for, and the digest of the message. Submissions with the same id
    and different identities are rivals; with the same identity and different digests, the later ones are edits."""

    id: str
    identity: ReviewIdentity
    message: int


class Submission(NamedTuple):
    """A submission with its id."""

    key: Key
    review: SubmittedReview
    positions: tuple[RecordPosition, ...]
    """The records that held it; the first of them counts."""
    other_id: str | None
    """The id that a process of the other schema, without or with places, gives to the same submission."""
    mark: CommandMark | None
    """The mark of its command."""
    is_command_later: bool
    """True if its command id came with an equal one behind it in its record, so that it counts only if it is unused."""
    ages: Mapping[RecordPosition, RecordPosition]
    """The positions by which replays among the records, and a record behind others with later times, are older or newer
    than others."""
    object_name: str | None = None
    is_bought: bool = False
    """True if an order was found."""
    proof: ReviewToken | None = None
    """Its review token, if that is valid and not used for another review."""
    detected_language: str | None = None

    @property
    def id(self) -> str:
        """The id of its review."""
        return self.key.id

    @property
    def created(self) -> datetime:
        """The time of its record, so that a redelivery writes the same document and is recognised by it."""
        return from_milliseconds(self.positions[0].timestamp)

    @property
    def answer_key(self) -> tuple[str, str]:
        """The key of its stored outcome; without a command id it has none."""
        return self.review.command_id or "", self.id

    @property
    def language_sample(self) -> str | None:
        """The text for detecting its language; None if it names its language, is too short, or is omitted."""
        text = None if self.review.language else self.review.review
        return None if text is None else detectable(self.review.title, text)

    @property
    def right(self) -> EditRight | None:
        """The right by which it edits. An upstream system acts for the author that it names."""
        return self.review.editor.right if self.review.editor else EditRight.AUTHOR

    @property
    def is_incomplete(self) -> bool:
        """True if it omits the text or the rating, so that it can only be an edit."""
        return bool(self.review.omitted)

    @property
    def is_import(self) -> bool:
        """True if another system accepted it before."""
        return self.review.source is Source.IMPORT

    @property
    def written(self) -> Written:
        """The record and the message by which its review is written."""
        return Written(self.aged_position, (self.key.message,))

    @property
    def aged_position(self) -> RecordPosition:
        """The position by which it is older or newer than others."""
        return self.ages.get(self.positions[0], self.positions[0])

    def accepted(self) -> Review:
        """The review to store for it."""
        facts = self.review.facts(self.detected_language, is_bought=self.is_bought, is_proven=self.proof is not None)
        review = self.review.accepted(self.id, self.created, self.written, facts, self.key.identity)
        review.entity_name = review.entity_name or self.object_name or review.entity_name
        return review

    @property
    def holder(self) -> IdHolder:
        """The holder of its id once its review is stored."""
        return IdHolder(self.created, self.key.identity, self.written)

    def refused(self, reason: Refusal, before: Seen | None = None) -> RefusedSubmission:
        """The refused submission, to hold its id, with its records added to those seen `before`."""
        seen = before or Seen()
        for position in sorted(self.positions):
            seen = seen.after(position)
        return RefusedSubmission(self.id, reason, seen)

    def unseen(self, seen: Seen) -> "Submission | None":
        """The submission without the records that have been seen; None if these are all."""
        positions = tuple(position for position in self.positions if not seen.covers(position))
        return self._replace(positions=positions) if positions else None

    def behind(self, refused: Iterable[RecordPosition]) -> "Submission":
        """The submission behind refused records. Earlier ones can have later times, as the clocks of senders differ:
        for the review that is stored from it, these are older all the same."""
        own = self.aged_position
        times = [each.timestamp for each in refused if each.partition == own.partition and each.offset < own.offset]
        if max(times, default=own.timestamp) <= own.timestamp:
            return self
        return self._replace(ages={**self.ages, self.positions[0]: own._replace(timestamp=max(times))})

    def repeated(self, position: RecordPosition) -> "Submission":
        """The submission with one more record."""
        return self._replace(positions=(*self.positions, position))

    def without_earlier_records(self, created: datetime | None) -> "Submission":
        """The submission without the records before the stored one, which has that time: they may have been refused.
        Unchanged if no record has that time."""
        if created is None:
            return self
        times = [from_milliseconds(position.timestamp) for position in self.positions]
        return self._replace(positions=self.positions[times.index(created) :]) if created in times else self

    def edit(self, reason: Refusal | None) -> Edit:
        """The edit that it makes of the stored review with its id; `reason`: the refusal by the store's rules."""
        editor = self.review.editor
        return Edit(
            self.id,
            self.key.identity,
            self.review.content,
            position=self.aged_position,
            message=self.key.message,
            record=content_digest(str(self.positions[0])),
            at=self.created,
            right=self.right,
            editor=editor.name if editor else None,
            stores=editor.stores if editor else None,
            # The review that the author already has is the one to edit, and has what is omitted.
            refusal=None if reason in (Refusal.DUPLICATE_REVIEW, Refusal.INCOMPLETE) else reason,
            token=self.proof,
            keeps_pending=bool(self.review.pending_images),
            command_id=self.review.command_id,
            mark=self.mark,
            trace=cause_of(self.positions[0]),
        )


def submissions_of(
    batch: Iterable[Received[Sequence[SubmittedReview]]], token_keys: Sequence[bytes], *, by_place: bool
) -> dict[Key, Submission]:
    """The submissions of a batch, with the authors named by review tokens.

    A repeated message or command counts where it came first, as it does across batches. Of several submissions with the
    same id and identity in one record the last one counts, over the fields of those before. A command id is not passed
    on to the next one: its outcome may be known from another record, and then the next one would change nothing. If it
    is used already, it isn't passed back to an equal one either.
    """
    submissions: dict[Key, Submission] = {}
    commands: dict[tuple[str, str], Key] = {}
    ages: dict[RecordPosition, RecordPosition] = {}
    for received in batch:
        position, aged = received.position, aged_position(received.record)
        if aged != position:
            ages[position] = aged
        # After the whole record, so that its result doesn't depend on other records.
        for submission in _of_record(received, token_keys, commands, ages, by_place=by_place):
            first = submissions.setdefault(submission.key, submission)
            if position not in first.positions:
                submissions[first.key] = first.repeated(position)
    return submissions


def _of_record(
    received: Received[Sequence[SubmittedReview]],
    token_keys: Sequence[bytes],
    commands: dict[tuple[str, str], Key],
    ages: Mapping[RecordPosition, RecordPosition],
    *,
    by_place: bool,
) -> Collection[Submission]:
    """The last submission of each id and identity in a record. `commands` has the key for which each command and id was
    first used, and gets those of the record."""
    record, reviews = received
    position, mark, identity = received.position, received.mark, cloud_event_identity(record.headers)
    latest: dict[tuple[str, ReviewIdentity], Submission] = {}
    for index, submitted in enumerate(reviews):
        review = submitted.by_author(token_keys, received.at)
        id, other_id = _ids(record, review, identity, index, by_place=by_place)
        content, last = review.content, latest.get((id, review.identity))
        if last and review.omitted:
            content = merged(last.review.content, content)
        is_equal = last is not None and last.review.content == content
        digest = message_digest(identity and f"{identity}/{index}", content)
        key = Key(id, review.identity, digest)
        command = review.command_id
        is_repeat = command is not None and (command, id) in commands
        if command:
            used_for = commands.setdefault((command, id), key)
            if last and is_equal and used_for not in (key, last.key):
                continue
            key = used_for
        last = latest.pop(key[:2], None)
        is_later = bool(last and is_equal and (last.is_command_later or last.review.command_id is None))
        if last is None or last.key != key:
            review = _over(last.review, review, command) if last else review
            last = Submission(key, review, (position,), other_id, mark, is_command_later=is_later, ages=ages)
        elif not is_repeat:
            review = _over(last.review, review, last.review.command_id or command)
            last = last._replace(review=review, is_command_later=is_later)
        latest[key[:2]] = last
    return latest.values()


async def known_submissions(
    services: Services, batch: Iterable[Received[Sequence[SubmittedReview]]], token_keys: Sequence[bytes]
) -> dict[Key, Submission]:
    """The submissions of a batch, with the ids under which they are stored, and without commands that are used up."""
    submissions = submissions_of(batch, token_keys, by_place=services.publisher.by_place)
    return await _without_used_commands(services, await _with_stored_ids(services, submissions))


async def _with_stored_ids(services: Services, submissions: dict[Key, Submission]) -> dict[Key, Submission]:
    """The submissions, with their other id where that one is taken."""
    taken = await services.reviews.holders({each.other_id for each in submissions.values() if each.other_id})
    if not taken:
        return submissions
    found = (
        each._replace(key=Key(each.other_id, *each.key[1:])) if each.other_id and each.other_id in taken else each
        for each in submissions.values()
    )
    return {each.key: each for each in found}


async def _without_used_commands(services: Services, submissions: dict[Key, Submission]) -> dict[Key, Submission]:
    """The submissions, without commands of equal ones behind them that have an outcome, if their reviews are stored:
    with such a command an edit would be lost."""
    later = [each for each in submissions.values() if each.is_command_later and each.review.command_id]
    used = await services.outcomes.answers([each.answer_key for each in later])
    holders = await services.reviews.holders({id for _, id in used})
    without = (
        each._replace(review=each.review.model_copy(update={"command_id": None}))
        for each in later
        if each.answer_key in used and each.id in holders and holders[each.id].identity is not None
    )
    return submissions | {each.key: each for each in without}


def _over(earlier: SubmittedReview, later: SubmittedReview, command_id: str | None) -> SubmittedReview:
    """A review over an earlier one in the same record: of each field the last value, and with images what
    belongs to them. It has this command id."""
    with_images = {"images", "hidden_images", "pending_images"}
    given = {name for name in later.model_fields_set - with_images if getattr(later, name) is not None}
    if later.images is not None:
        given |= with_images
    values = {name: getattr(later, name) for name in given}
    return earlier.model_copy(update={**values, "command_id": command_id})


def _ids(
    record: RawRecord, review: SubmittedReview, identity: str | None, index: int, *, by_place: bool
) -> tuple[str, str | None]:
    """The id of a submission, and its other id (`Submission.other_id`)."""
    if review.id is None:
        content = identity.encode() if identity else record.value or b""
        derived = uuid5(_SUBMISSIONS_WITHOUT_ID, content.hex() + f"/{index}")
        plain, in_place = str(derived), placed(derived, bucket_of(review.entity))
        return (in_place, plain) if by_place else (plain, in_place)
    if review.command_id and review.former_id is None and _FROM_A_KEY.fullmatch(review.id):
        return review.id, placed(UUID(review.id), bucket_of(review.entity))
    return review.id, review.former_id
