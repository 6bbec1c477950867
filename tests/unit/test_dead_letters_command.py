"""`plaudit dlq`: selecting dead letters by place and by filter."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from plaudit.cli import dead_letters

PLACE = "review-submissions/3/17"


@pytest.mark.parametrize("command", [["replay"], ["discard", "--reason", "a test"]])
@pytest.mark.parametrize(
    "criterion",
    [
        ("--topic", "review-submissions"),
        ("--code", "invalid-json"),
        ("--since", "2026-03-14T09:00:00Z"),
        ("--until", "2026-03-14T09:00:00Z"),
    ],
)
def test_filters_with_places_are_refused(command: list[str], criterion: tuple[str, str]) -> None:
    result = CliRunner().invoke(dead_letters.app, [*command, PLACE, *criterion])
    assert (result.exit_code, "omit --topic, --code" in result.output) == (2, True), result.output


@pytest.mark.parametrize("criterion", [(PLACE,), ("--topic", "review-submissions"), ("--code", "invalid-json")])
def test_discard_all_with_places_or_filters_is_refused(criterion: tuple[str, ...]) -> None:
    result = CliRunner().invoke(dead_letters.app, ["discard", "--reason", "a test", "--all", *criterion])
    output = " ".join(result.output.split())
    assert (result.exit_code, "omit it if you name places or a filter" in output) == (2, True), result.output


def test_letter_named_twice_counts_once(tmp_path: Path) -> None:
    """So it can be replaced by a value; this one would become a dead letter again."""
    mended = tmp_path / "mended.json"
    mended.write_bytes(b"no JSON")
    result = CliRunner().invoke(dead_letters.app, ["replay", PLACE, PLACE, "--value", str(mended)])
    assert (result.exit_code, "would reject this value (invalid-json)" in result.output) == (1, True), result.output
