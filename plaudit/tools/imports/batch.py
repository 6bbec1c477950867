"""A batch of rows of an import, published and acknowledged together."""

from collections.abc import Collection

from domain.delivery import OutgoingMessage
from plaudit.tools.imports.images import FoundImage
from plaudit.tools.imports.messages import RowMessages
from plaudit.tools.imports.rows import Row


class Batch:
    """Good rows with their messages, and bad rows with their reasons."""

    def __init__(self) -> None:
        self.rows = self.bytes = self.commands = self.feedback_left_out = 0
        self.good: list[tuple[int, RowMessages]] = []
        self.bad: list[tuple[int, str]] = []
        self.last = Row(0, 0, 0)

    def add(self, line: int, messages: RowMessages) -> None:
        """Add the messages of a good row."""
        self.good.append((line, messages))
        self.bytes += messages.bytes
        self.commands += len(messages.followers)
        self.feedback_left_out += messages.feedback_left_out

    def add_bad(self, line: int, reason: str) -> None:
        """Add a bad row with its reason."""
        self.bad.append((line, reason))
        self.bytes += len(reason)

    def refuse(self, stores: Collection[str]) -> dict[str, str | None]:
        """Turn the rows of these stores into bad rows. Feedback on their reviews is about the next good row with the
        same id instead, and is left out if none precedes it.

        Returns the ids of those reviews, and the hash of the text of that row, None without one.
        """
        texts: dict[str, str | None] = {}
        good, self.good = self.good, []
        for line, each in good:
            if each.store_id in stores:
                reason = f"There is no store {each.store_id}: register it with PUT /api/stores/{each.store_id}"
                self.bad.append((line, reason))
                if each.counts and each.review_id:
                    texts[each.review_id] = None
                continue
            if each.review_id in texts:
                text = texts[each.review_id]
                if each.submission:
                    texts[each.review_id] = text or each.text
                elif text:
                    each = each.about(text)
                else:
                    self.feedback_left_out += len(each.followers)
                    continue
            self.good.append((line, each))
        return texts

    @property
    def stores(self) -> set[str]:
        """The ids of the stores that good rows name."""
        return {each.store_id for _, each in self.good if each.store_id is not None}

    @property
    def submissions(self) -> list[OutgoingMessage]:
        """The submissions of the good rows."""
        return [each.submission for _, each in self.good if each.submission]

    @property
    def followers(self) -> list[OutgoingMessage]:
        """Commands about reviews, to be published after the submissions."""
        return [follower for _, each in self.good for follower in each.followers]

    @property
    def images(self) -> list[FoundImage]:
        """The images to be uploaded before the reviews are published."""
        return [image for _, each in self.good for image in each.images]

    @property
    def without_file(self) -> int:
        """The number of images that were exported without their files."""
        return sum(each.without_file for _, each in self.good)
