"""Limits for each client: a rate of requests, beyond which the response is 429; and slots for long operations."""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from time import monotonic
from typing import Final

from starlette.requests import Request

from api.web.problems import ProblemError, ProblemKind

MAX_CLIENTS: Final = 10_000
"""Maximum number of clients that are counted; an evicted one starts afresh."""

_CLIENT_BITS: Final = 64


def network_of(request: Request) -> str:
    """The address of a client; for IPv6 its /64 network, in which a client has as many addresses as it likes."""
    host = request.client.host if request.client else ""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or IPv6Network((int(address), _CLIENT_BITS), strict=False))


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimit:
    """A token bucket for each client: `rate` requests per second in the long run, `burst` at once. A rate of 0 is no
    limit. `name` describes the limit to a client that exceeds it.

    Each process counts by itself: see docs/decisions/0011-rates-are-limited-by-each-process.md.
    """

    def __init__(self, rate: float = 0.0, burst: float | None = None, name: str = "") -> None:
        self._rate = rate
        self._name = name or f"{rate:g} requests a second"
        self._burst = max(1.0, 2 * rate if burst is None else burst)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, client: str) -> None:
        """Count a request. Raises ProblemError (429, with Retry-After) if the client exceeds the limit."""
        if not self._rate:
            return
        now = monotonic()
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self._burst, now)
            if len(self._buckets) > MAX_CLIENTS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < 1:
            seconds = math.ceil((1 - bucket.tokens) / self._rate)
            detail = f"More than {self._name}. Try again in {seconds} s."
            raise ProblemError(ProblemKind.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(seconds)})
        bucket.tokens -= 1

    def give_back(self, client: str) -> None:
        """Undo the count of a request: it turned out to be another client's."""
        bucket = self._buckets.get(client)
        if bucket is not None:
            bucket.tokens = min(self._burst, bucket.tokens + 1)


class Slots:
    """Slots of one process for waits for outcomes, or for feeds: `most` in total, `most_per_client` for one client."""

    def __init__(self, *, most: int, most_per_client: int) -> None:
        self._most = most
        self._most_per_client = most_per_client
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, client: str) -> Iterator[bool]:
        """Hold a slot during the block; False if none is left for this client."""
        is_free = self._taken[client] < self._most_per_client and self._taken.total() < self._most
        if is_free:
            self._taken[client] += 1
        try:
            yield is_free
        finally:
            if is_free:
                self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
