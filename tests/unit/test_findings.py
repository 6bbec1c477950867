"""Constructors of findings by level."""

from domain.findings import Finding, Level, failed, ok, warn


def test_findings_of_each_level() -> None:
    assert ok("Kafka", "It answers") == Finding("Kafka", Level.OK, "It answers", "")
    assert warn("Kafka", "It is slow", "Wait") == Finding("Kafka", Level.WARN, "It is slow", "Wait")
    assert failed("Kafka", "It is away", "Start it") == Finding("Kafka", Level.FAIL, "It is away", "Start it")
