"""Findings of `plaudit doctor` about topics whose settings were changed by hand."""

import pytest

from messaging.kafka.checks_settings import settings_problems
from messaging.topics import ExpectedTopics, TopicLayout, TopicNames, topic_settings

NAMES, LAYOUT = TopicNames("p."), TopicLayout()
EXPECTED = ExpectedTopics(NAMES, LAYOUT, remember_days=21)
AS_MADE = {name: topic_settings(name, NAMES, LAYOUT) for name in NAMES.all()}


def problems(topic: str, **changed: str) -> list[str]:
    settings = AS_MADE[topic] | {name.replace("_", "."): value for name, value in changed.items()}
    return [f"{each.text} {each.advice}" for each in settings_problems(AS_MADE | {topic: settings}, EXPECTED)]


def test_default_or_hidden_settings_are_no_problem() -> None:
    assert list(settings_problems(AS_MADE, EXPECTED)) == list(settings_problems({}, EXPECTED)) == []
    assert list(settings_problems({name: {} for name in AS_MADE}, EXPECTED)) == []


@pytest.mark.parametrize(
    ("topic", "name", "value", "advice"),
    [
        ("p.reviews", "cleanup_policy", "delete", "reviews that haven't changed for a long time disappear"),
        ("p.reviews", "cleanup_policy", "compact,delete", "reviews that haven't changed for a long time disappear"),
        ("p.reviews", "min_compaction_lag_ms", "0", "min.compaction.lag.ms=86400000,max.compaction.lag.ms=86400000"),
        ("p.reviews", "max_compaction_lag_ms", f"{2**63 - 1}", "max.compaction.lag.ms=86400000"),
        ("p.order-events", "cleanup_policy", "compact", "cleanup.policy=delete"),
        ("p.order-events.dlq", "cleanup_policy", "compact,delete", "cleanup.policy=delete"),
        ("p.order-events", "retention_ms", "3600000", "retention.ms=604800000"),
        ("p.order-events.dlq", "retention_bytes", "1000000", "retention.bytes=-1"),
        ("p.order-events", "retention_ms", "-1", "can bring back a deleted review"),
        ("p.order-events", "max_message_bytes", "1048588", "Set it to 8388608"),
        ("p.order-events.dlq", "max_message_bytes", "8388608", "or 8454144 for dead letters"),
    ],
)
def test_changed_setting_is_reported(topic: str, name: str, value: str, advice: str) -> None:
    (problem,) = problems(topic, **{name: value})
    assert topic in problem
    assert advice in problem


def test_events_may_have_a_shorter_retention() -> None:
    assert problems("p.events", retention_ms="3600000") == []
