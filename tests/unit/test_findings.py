"""Findings: what each kind of them says."""

from __future__ import annotations

import pytest

from domain.findings import Finding, Level, failed, ok, warn


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ok("Kafka", "It answers"), Finding("Kafka", Level.OK, "It answers", "")),
        (warn("Kafka", "It is slow", "Wait"), Finding("Kafka", Level.WARN, "It is slow", "Wait")),
        (failed("Kafka", "It is away", "Start it"), Finding("Kafka", Level.FAIL, "It is away", "Start it")),
    ],
    ids=[*Level],
)
def test_a_finding_says_what_was_looked_at_how_it_is_and_what_to_do(found: Finding, expected: Finding) -> None:
    assert found == expected
