"""Rate limits on writes from one address, counted in each process."""

from typing import Final

from fastapi import Request

from api.web.limits import RateLimit
from storefront.options import StorefrontOptions

_HOUR_S: Final = 3_600
_ALL_FACTOR: Final = 10


class HourlyRate:
    """An hourly limit on one address about one thing, and ten times as much about all things."""

    def __init__(self, most: int, name: str) -> None:
        of_all = _ALL_FACTOR * most
        one = name.removesuffix("s") if most == 1 else name
        self._of_one = RateLimit(most / _HOUR_S, most, f"{most} {one} an hour about the same thing")
        self._of_all = RateLimit(of_all / _HOUR_S, of_all, f"{of_all} {name} an hour")

    def take(self, address: str, *thing: str) -> None:
        """Count one write. Raises ProblemError (429), with Retry-After."""
        self._of_all.take(address)
        self._of_one.take("\n".join((address, *thing)))


class Rates:
    """The rate limits on all writes from pages."""

    def __init__(self, options: StorefrontOptions) -> None:
        self.reviews = HourlyRate(options.reviews_per_hour, "reviews")
        self.images = HourlyRate(options.images_per_hour, "images")
        self.votes = HourlyRate(options.votes_per_hour, "votes")
        self.reports = HourlyRate(options.reports_per_hour, "reports")


def rates_of(request: Request) -> Rates:
    """The rate limits of the application that serves the request."""
    rates: Rates = request.app.state.storefront_rates
    return rates
