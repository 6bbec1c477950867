"""Constructors of findings by level."""

from domain.findings import Finding, Level, failed, ok, warn


def test_a_finding_says_what_was_looked_at_how_it_is_and_what_to_do() -> None:
    assert ok("Kafka", "It answers") == Finding("Kafka", Level.OK, "It answers", "")
    assert warn("Kafka", "It is slow", "Wait") == Finding("Kafka", Level.WARN, "It is slow", "Wait")
    assert failed("Kafka", "It is away", "Start it") == Finding("Kafka", Level.FAIL, "It is away", "Start it")
