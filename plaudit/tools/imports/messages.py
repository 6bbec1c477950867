"""The messages that are published for a row of an import."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import orjson

from domain.delivery import OutgoingMessage
from domain.moderation_rules_text import text_hash
from domain.places import entity_key
from domain.reviews_facts import Source
from domain.timestamps import timestamp
from messaging.envelope import Envelope
from messaging.moderation import routed_value
from messaging.topics import Topic, TopicNames
from plaudit.tools.imports.bad_rows import BadRowError
from plaudit.tools.imports.columns import SeenColumns
from plaudit.tools.imports.images import FoundImage, count_without_files, images_in
from plaudit.tools.imports.mapping import submission_identity
from plaudit.tools.imports.past import PastFeedback, feedback_identity, feedback_in, is_exported, past_in
from plaudit.tools.imports.rows import Row

MOST_REMEMBERED: Final = 1_000
"""Maximum number of reviews whose text hashes are kept: an export writes votes and reports after each 500 reviews."""


@dataclass(frozen=True, slots=True)
class LatestReviews:
    """Remembers the latest `MOST_REMEMBERED` reviews of good rows. `texts` maps ids to text hashes, oldest first; a
    checkpoint keeps them.

    Of two good rows with one id the first counts: the second is refused unless it has the same content.
    """

    texts: dict[str, str] = field(default_factory=dict)

    def note(self, review_id: str, text_hash: str) -> bool:
        """Remember the review of a good row. False if an earlier row with its id counts."""
        if review_id in self.texts:
            return False
        self.texts[review_id] = text_hash
        if len(self.texts) > MOST_REMEMBERED:
            del self.texts[next(iter(self.texts))]
        return True

    def correct(self, texts: Mapping[str, str | None]) -> None:
        """Replace the hashes of these reviews, whose rows have turned out to be bad; None: forget the review."""
        for id, text in texts.items():
            if text is None:
                self.texts.pop(id, None)
            elif id in self.texts:
                self.texts[id] = text


@dataclass(frozen=True, slots=True)
class RowMessages:
    """The messages and images of a row."""

    submission: OutgoingMessage | None
    """None for a line of votes or reports."""

    followers: list[OutgoingMessage] = field(default_factory=list)
    """Commands to be published after the submission."""

    images: list[FoundImage] = field(default_factory=list)
    """Images to be uploaded before the submission is published."""

    without_file: int = 0
    """Number of images that were exported without their files."""

    store_id: str | None = None
    review_id: str | None = None
    feedback_left_out: int = 0
    """Number of votes and reports left out because no good row of their review precedes them."""

    counts: bool = False
    """True if feedback on the review refers to this row."""

    text: str | None = None
    """The hash of the review's text; None for a line of votes or reports."""

    @property
    def bytes(self) -> int:
        """The total size of messages and images in bytes."""
        messages = [*self.followers, *([self.submission] if self.submission else [])]
        return sum(len(each.value or b"") for each in messages) + sum(len(image.content) for image in self.images)

    def about(self, text: str) -> "RowMessages":
        """This line of votes or reports, about a review whose text has this hash."""
        followers = [
            each._replace(value=orjson.dumps(orjson.loads(each.value or b"") | {"textHash": text}))
            for each in self.followers
        ]
        return replace(self, followers=followers)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Builds the messages of rows, by the mapping of `columns`. If that is `as_new`, the past in our own exports is
    left out; without `folder`, images.

    Commands that restore a past carry the hash of their review's text: they don't change another review with that id.
    """

    columns: SeenColumns
    topics: TopicNames
    is_text: bool
    folder: Path | None = None
    latest: LatestReviews = field(default_factory=LatestReviews)
    envelope: Envelope = field(default_factory=lambda: Envelope("/plaudit/import"))

    def messages(self, row: Row) -> RowMessages:
        """The messages of a row. Raises BadRowError."""
        if row.columns is None:
            raise BadRowError(row.fault)
        feedback = None if self.is_text else feedback_in(row.columns)
        return self._feedback_row(feedback) if feedback else self._review(row.columns)

    def _feedback_row(self, feedback: PastFeedback) -> RowMessages:
        if self.columns.as_new:
            return RowMessages(None)
        text = self.latest.texts.get(feedback.review_id)
        if text is None:
            return RowMessages(None, feedback_left_out=len(feedback.votes) + len(feedback.reported))
        return RowMessages(None, list(self._feedback(feedback.commands(), text)), review_id=feedback.review_id)

    def _review(self, columns: Mapping[str, Any]) -> RowMessages:
        self.columns.note(columns)
        past = None if self.columns.as_new else past_in(columns, is_text=self.is_text)
        images, without_file = list[FoundImage](), 0
        if self.folder and is_exported(columns):
            images, without_file = images_in(columns, self.folder), count_without_files(columns)
        review = self.columns.mapping.submission(columns, is_text=self.is_text)
        data = review.model_dump(mode="json", by_alias=True, exclude_none=True)
        data |= {"source": Source.IMPORT.value} | _image_fields(images)
        if past:
            data.pop("language", None)  # the restoration sets it, or leaves it unset
            data["writtenDate"] = timestamp(past.created_date)
        data["editor"] = {}  # no right to edit: an existing review stays as it is
        topic, key = self.topics.name(Topic.REVIEW_SUBMISSIONS), entity_key(review.entity)
        submission = self.envelope.wrap(topic, key, "review.submission", data, id=submission_identity(review))
        followers = [self._upload(image) for image in images]
        text = text_hash(review.title, review.review or "")  # an import has one
        counts = review.id is not None and not self.is_text and self.latest.note(review.id, text)
        if past and review.id is not None:
            moderation, command = self.topics.name(Topic.MODERATION_COMMANDS), past.restoration()
            command = routed_value(command, review.id, text)
            restoration = self.envelope.wrap(moderation, review.id, "review.moderation", command)
            followers = [restoration, *self._feedback(past.feedback(review.id), text), *followers]
        return RowMessages(
            submission, followers, images, without_file, review.store_id, review.id, counts=counts, text=text
        )

    def _upload(self, image: FoundImage) -> OutgoingMessage:
        """The message about an uploaded image, for after the submission: without a review it is deleted after a day."""
        return self.envelope.wrap(
            self.topics.name(Topic.IMAGE_UPLOADS), image.entry.id, "image.uploaded", image.upload()
        )

    def _feedback(self, commands: Iterable[dict[str, Any]], text: str) -> Iterator[OutgoingMessage]:
        """The messages of feedback on a review whose text has this hash."""
        topic = self.topics.name(Topic.REVIEW_FEEDBACK)
        for command in commands:
            id, value = feedback_identity(command), command | {"textHash": text}
            yield self.envelope.wrap(topic, command["reviewId"], "review.feedback", value, id=id)


def _image_fields(images: Sequence[FoundImage]) -> dict[str, Any]:
    """The fields of a submission that name its images."""
    hidden = [image.entry.id for image in images if image.entry.hidden]
    named = {"images": [image.entry.id for image in images], "hiddenImages": hidden}
    return {name: ids for name, ids in named.items() if ids}
