"""Checks of topic settings, which administrators may have changed by hand, and of the consequences."""

from collections.abc import Iterator, Mapping
from typing import Final

from domain.findings import Finding, failed, warn
from domain.quantities import quantity
from messaging.kafka.durability import unsafe_topics
from messaging.topics import (
    COMPACTED,
    CONSUMED,
    DEAD_LETTER_SUFFIX,
    IN_SYNC,
    MAX_COMPACTION_LAG,
    MAX_DEAD_LETTER_BYTES,
    MAX_RECORD_BYTES,
    MIN_COMPACTION_LAG,
    ExpectedTopics,
    Topic,
)

_DAY_MS: Final = 86_400_000

Configs = Mapping[str, Mapping[str, str]]
"""Settings of topics by topic name."""


def settings_problems(configs: Configs, expected: ExpectedTopics) -> Iterator[Finding]:
    """Findings on the settings of topics, as `topic_settings_of` returns them; none if all are well."""
    reviews = expected.topics.name(Topic.REVIEWS)
    yield from _policies(configs, reviews)
    yield from _compaction(configs.get(reviews, {}), reviews)
    yield from _long_retentions(configs, expected, reviews)
    yield from _short_retentions(configs, expected)
    yield from _unsafe_topics(configs, expected.layout.in_sync)
    yield from _small_topics(configs)


def _long_retentions(configs: Configs, expected: ExpectedTopics, reviews: str) -> Iterator[Finding]:
    kept = {name: _number(each, "retention.ms", 0) for name, each in configs.items() if name != reviews}
    long = [name for name, ms in kept.items() if ms < 0 or ms > expected.remember_days * _DAY_MS]
    if long:
        taken = quantity(expected.remember_days, "day")
        yield warn(
            "retention",
            f"longer than the ids of deleted reviews stay taken ({taken}) in {', '.join(long)}",
            "Set PLAUDIT_KAFKA__RETENTION_DAYS to the topics' retention (to the maximum if that is -1, unlimited) "
            "and run `plaudit init`: otherwise an old submission can bring back a deleted review.",
        )


def _short_retentions(configs: Configs, expected: ExpectedTopics) -> Iterator[Finding]:
    """Only for topics that we consume: the retention of the others is up to their readers."""
    days, names = expected.layout.retention_days, expected.topics
    ours = [each for topic in CONSUMED for each in (names.name(topic), names.dead_letters(topic))]
    short = [
        name
        for name in ours
        if 0 <= _number(configs.get(name, {}), "retention.ms", -1) < days * _DAY_MS
        or _number(configs.get(name, {}), "retention.bytes", -1) >= 0
    ]
    if short:
        yield warn(
            "retention",
            f"shorter than PLAUDIT_KAFKA__RETENTION_DAYS ({days}), or bounded by retention.bytes: {', '.join(short)}",
            "Records that no worker has read by then are lost: use kafka-configs.sh to set "
            f"retention.ms={days * _DAY_MS},retention.bytes=-1, or set PLAUDIT_KAFKA__RETENTION_DAYS to the "
            "intended value.",
        )


def _number(config: Mapping[str, str], name: str, unknown: int) -> int:
    return int(config.get(name) or unknown)


def _policies(configs: Configs, reviews: str) -> Iterator[Finding]:
    policy = configs.get(reviews, {}).get("cleanup.policy", "compact")
    if policy != "compact":
        yield warn(
            "topics",
            f"{reviews} has the cleanup.policy {policy}, so reviews that haven't changed for a long time disappear "
            "from it",
            f"Use kafka-configs.sh to set {_settings(COMPACTED)}, then run `plaudit reviews republish`.",
        )
    others = [name for name, each in configs.items() if name != reviews and "compact" in each.get("cleanup.policy", "")]
    if others:
        lost = "all messages and dead letters but the last one of each key are lost"
        advice = "Use kafka-configs.sh to set cleanup.policy=delete."
        yield failed("topics", f"compacted, so {lost}: {', '.join(others)}", advice)


def _compaction(config: Mapping[str, str], reviews: str) -> Iterator[Finding]:
    lags = {name: int(COMPACTED[name]) for name in (MIN_COMPACTION_LAG, MAX_COMPACTION_LAG)}
    least, most = (_number(config, name, wanted) for name, wanted in lags.items())
    reasons = []
    if least < lags[MIN_COMPACTION_LAG]:
        reasons.append(f"{MIN_COMPACTION_LAG}={least}, so `plaudit reviews compare` can't find states of the last day")
    if most > lags[MAX_COMPACTION_LAG]:
        reasons.append(f"{MAX_COMPACTION_LAG}={most}, so texts of erased people stay for longer than two days")
    if reasons:
        advice = f"Use kafka-configs.sh to set {_settings(lags)}."
        yield warn("topics", f"{reviews} has {'; and '.join(reasons)}", advice)


def _settings(settings: Mapping[str, object]) -> str:
    """Settings as kafka-configs.sh takes them."""
    return ",".join(f"{name}={value}" for name, value in settings.items())


def _unsafe_topics(configs: Configs, in_sync: int) -> Iterator[Finding]:
    unsafe = unsafe_topics(configs, in_sync)
    if unsafe:
        advice = f"Use kafka-configs.sh to set {IN_SYNC}={in_sync}: otherwise losing a broker loses accepted messages."
        yield failed("durability", f"messages on only one broker count as stored in {', '.join(unsafe)}", advice)


def _small_topics(configs: Configs) -> Iterator[Finding]:
    small = []
    for name, config in configs.items():
        needed = MAX_DEAD_LETTER_BYTES if name.endswith(DEAD_LETTER_SUFFIX) else MAX_RECORD_BYTES
        if _number(config, "max.message.bytes", needed) < needed:
            small.append(name)
    if small:
        advice = (
            f"Set it to {MAX_RECORD_BYTES}, or {MAX_DEAD_LETTER_BYTES} for dead letters: otherwise larger "
            "messages wait."
        )
        yield warn("topics", f"max.message.bytes is too small in {', '.join(small)}", advice)
