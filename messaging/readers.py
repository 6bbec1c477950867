"""The readers of all consumed topics, for their consumers and for checks of values before they are sent."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from messaging.dead_letters_replays import REPLAY_COMMAND
from messaging.feedback import FEEDBACK_COMMAND
from messaging.images import IMAGE_COMMAND, IMAGE_UPLOAD
from messaging.mails import mail_command
from messaging.moderation import MODERATION_COMMAND
from messaging.objects import OBJECT_UPDATE
from messaging.orders import order_event
from messaging.reading import Reader
from messaging.reading_acknowledged import CommandReader
from messaging.reminders import REMINDER_COMMAND
from messaging.returns import RETURN_COMMAND
from messaging.reviews import REVIEW_CHANGE, submissions_in
from messaging.sessions import ENDED_SESSION
from messaging.stores import STORE_UPDATE
from messaging.topics import Topic
from messaging.verdicts import MODERATION_VERDICT

READERS: Final[Mapping[Topic, Callable[[bytes], Any]]] = {
    Topic.STORE_UPDATES: Reader(STORE_UPDATE),
    Topic.OBJECT_UPDATES: Reader(OBJECT_UPDATE),
    Topic.ORDER_EVENTS: order_event,
    Topic.IMAGE_UPLOADS: Reader(IMAGE_UPLOAD),
    Topic.REVIEW_SUBMISSIONS: submissions_in,
    Topic.MODERATION_COMMANDS: Reader(MODERATION_COMMAND),
    Topic.REVIEW_FEEDBACK: Reader(FEEDBACK_COMMAND),
    Topic.IMAGE_COMMANDS: Reader(IMAGE_COMMAND),
    Topic.MODERATION_VERDICTS: Reader(MODERATION_VERDICT),
    Topic.REVIEW_CHANGES: Reader(REVIEW_CHANGE),
    Topic.RETURN_COMMANDS: CommandReader(RETURN_COMMAND),
    Topic.REMINDER_COMMANDS: Reader(REMINDER_COMMAND),
    Topic.ENDED_SESSIONS: Reader(ENDED_SESSION),
    Topic.MAIL_COMMANDS: mail_command,
    Topic.DEAD_LETTER_COMMANDS: Reader(REPLAY_COMMAND),
}
"""Readers by topic; each raises InvalidContentError or InvalidMessageError."""
