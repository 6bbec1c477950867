"""The reasons in results of commands, in words. Those of returns are written where they are decided, as they depend on
quantities and statuses."""

from collections.abc import Mapping
from typing import Final

from domain.commands import KEY_REUSED
from domain.feedback import FeedbackRefusal
from domain.images import UploadRefusal
from domain.moderation import ModerationRefusal
from domain.reviews_refusals import Refusal
from messaging.dead_letters_replays import ReplayObstacle

_OTHER_STORE: Final = "The review belongs to another store."
_TEXT_CHANGED: Final = "Its text has changed: read it again, and send the hash of the new text."

MESSAGES: Final[Mapping[str, str]] = {
    KEY_REUSED: "Another request was sent with this Idempotency-Key: use a new key.",
    ModerationRefusal.STATUS_CHANGED: "Its status isn't the expected one: see `status` and `moderator`.",
    ModerationRefusal.TEXT_CHANGED: _TEXT_CHANGED,
    ModerationRefusal.OTHER_STORE: _OTHER_STORE,
    FeedbackRefusal.TEXT_CHANGED: _TEXT_CHANGED,
    FeedbackRefusal.OTHER_STORE: _OTHER_STORE,
    UploadRefusal.UNREADABLE: "The file is damaged, or no image: send another one.",
    UploadRefusal.ANIMATED: "The image is animated: send a still one.",
    UploadRefusal.TOO_LARGE: "The image has more than 25 megapixels: send a smaller one.",
    UploadRefusal.TOO_COSTLY: "The image takes too long or too much memory to convert: send a smaller one.",
    UploadRefusal.LOST: "The file is gone from the image store: send it again with a new Idempotency-Key.",
    ReplayObstacle.REPLAYED: "It was replayed before, so nothing was done.",
    ReplayObstacle.DISCARDED: "It was discarded, so it isn't replayed.",
    ReplayObstacle.ERASED: "It is about a person whose data has been erased since, so it isn't replayed.",
    ReplayObstacle.EMPTY: "It has no value: send one as `value`.",
    ReplayObstacle.TOO_LARGE: "It is too large to be processed: send a smaller `value`.",
    # Among them the code `image-of-another`, which uploads have, too.
    **{refusal: refusal.message for refusal in Refusal},
}
"""The message of each reason, by its code."""
