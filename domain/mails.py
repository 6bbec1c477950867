"""Retries of mails that could not be sent."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Exponential backoff: the first pause, doubled each time up to the longest, and the time until giving up."""

    first_pause: timedelta = timedelta(seconds=30)
    longest_pause: timedelta = timedelta(hours=1)
    give_up_after: timedelta = timedelta(hours=24)

    def next_attempt(self, now: datetime, *, first: datetime, attempts: int, jitter: float) -> datetime | None:
        """The time of the next attempt after this number of attempts, the first at `first`; None to give up.

        `jitter`, from 0 to 1, shortens the pause by up to a half, so that mails that failed together spread out.
        """
        return None if now - first >= self.give_up_after else now + self.pause(attempts, jitter)

    def pause(self, attempts: int, jitter: float) -> timedelta:
        """The pause after this number of attempts."""
        # The longest pause is reached long before the factor 2^20.
        pause = min(self.longest_pause, self.first_pause * (1 << min(attempts - 1, 20)))
        return pause * (1 - jitter / 2)
