"""The texts of the latest reviews of an import: votes and reports stand in lines of their own behind their review."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

MOST: Final = 1_000
"""An export writes such lines behind each 500 reviews."""


@dataclass(frozen=True, slots=True)
class LatestReviews:
    """Remembers the texts of the latest reviews, so many at most. `texts` are the hashes by id, the oldest first, None
    for bad rows; a checkpoint keeps them.

    Of two good rows with an id the first one counts: the other one is refused unless it says the same.
    """

    texts: dict[str, str | None] = field(default_factory=dict)

    def note(self, review_id: str, text_hash: str) -> bool:
        """Note the review of a row. False where a row before it counts."""
        is_first = self.texts.get(review_id) is None
        if is_first:
            self._put(review_id, text_hash)
        return is_first

    def note_bad(self, review_ids: Iterable[str]) -> None:
        """Note that the rows of these reviews are bad."""
        for id in review_ids:
            self._put(id, None)

    def text_of(self, review_id: str) -> str | None:
        """The hash of this review's text, None for one that isn't among the latest."""
        return self.texts.get(review_id)

    def is_bad(self, review_id: str) -> bool:
        """True if the review is none of the import's, for its row is bad."""
        return review_id in self.texts and self.texts[review_id] is None

    def _put(self, review_id: str, text_hash: str | None) -> None:
        self.texts[review_id] = text_hash
        if len(self.texts) > MOST:
            del self.texts[next(iter(self.texts))]
