"""Ingest by the worker: without moderation rules, with ten rules, and with approval by rule."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import orjson

from benchmarks.comparison import Comparison, in_turns, paired, per_second
from benchmarks.samples import submissions
from benchmarks.servers import Servers
from benchmarks.sizes import Size
from messaging.topics import Topic

_PLAIN: Final = "no rules"
_WARM_UP: Final = 5_000
_WORDS: Final = [f"{kind} {n}" if n % 5 == 0 else f"{kind}{n}" for kind in ("scam", "fake") for n in range(250)]
_TEN: Final[list[dict[str, Any]]] = [
    {"id": "words", "kind": "words", "outcome": "hold", "words": _WORDS},
    {"id": "names", "kind": "words", "outcome": "flag", "words": [f"rival{n}" for n in range(100)]},
    {"id": "links", "kind": "links", "outcome": "hold"},
    {"id": "contact", "kind": "contact", "outcome": "hold"},
    {"id": "repeated", "kind": "repeated", "outcome": "flag"},
    {"id": "duplicate", "kind": "duplicate", "outcome": "flag"},
    {"id": "languages", "kind": "languages", "outcome": "flag", "languages": ["en", "de"]},
    {"id": "verified", "kind": "verified", "outcome": "approve"},
    {"id": "low", "kind": "stars", "outcome": "hold", "below": 1, "publishAfterHours": 24},
    {"id": "high", "kind": "stars", "outcome": "approve", "above": 5},
]
"""Rules of every kind. None of them fires for the sample reviews, as rules seldom do."""

RULES: Final[dict[str, tuple[list[dict[str, Any]], float]]] = {
    "ten rules": (_TEN, 0.8),
    "approval by rule": ([{"id": "all", "kind": "always", "outcome": "approve"}], 0.5),
}


async def compare(servers: Servers, size: Size) -> list[Comparison]:
    """Ingest the same reviews with each set of rules, in turns."""
    rules = {_PLAIN: [], **{name: rules for name, (rules, _) in RULES.items()}}
    measures = {name: partial(_rate, servers, each, size.ingest) for name, each in rules.items()}
    await _rate(servers, [], _WARM_UP)
    rates = await in_turns(size.runs, measures)
    return [
        Comparison(
            f"Ingest with {name}, {size.ingest:,} reviews",
            "without rules",
            paired(rates[name], rates[_PLAIN]),
            goal,
            absolute=f"{per_second(rates[name])} against {per_second(rates[_PLAIN])}",
        )
        for name, (_, goal) in RULES.items()
    ]


def _different(count: int) -> Iterator[tuple[str, bytes]]:
    """Submissions with different texts."""
    for number, (key, value) in enumerate(submissions(count)):
        review = orjson.loads(value)
        yield key, orjson.dumps({**review, "review": f"{review['review']}This is number x{number}x of them."})


async def _rate(servers: Servers, rules: list[dict[str, Any]], count: int) -> float:
    """Reviews per second for a store with these rules, with new topics and a new database."""
    async with servers.workspace() as workspace:
        await workspace.database["stores"].update_one({"_id": "open"}, {"$set": {"settings.moderationRules": rules}})
        workspace.publish(Topic.REVIEW_SUBMISSIONS, _different(count))
        with workspace.running("plaudit", "worker") as process:
            rate = await workspace.stored_rate("reviews", count, process)
            # A worker that is killed during the last transaction leaves locks, and the database can't be dropped.
            await workspace.until_committed(Topic.REVIEW_SUBMISSIONS, count, process)
            return rate
