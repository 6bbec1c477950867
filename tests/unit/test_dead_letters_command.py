"""`plaudit dlq`: selecting dead letters by place and by filter."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from plaudit.cli import dead_letters

PLACE, TOPIC, CODE = "review-submissions/3/17", ("--topic", "review-submissions"), ("--code", "invalid-json")
SINCE, UNTIL = ("--since", "2026-03-14T09:00:00Z"), ("--until", "2026-03-14T09:00:00Z")
DISCARD = ("discard", "--reason", "a test")


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        *(
            ((*command, PLACE, *criterion), "omit --topic, --code")
            for command in (("replay",), DISCARD)
            for criterion in (TOPIC, CODE, SINCE, UNTIL)
        ),
        *(((*DISCARD, "--all", *each), "omit it if you name places or a filter") for each in ((PLACE,), TOPIC, CODE)),
    ],
)
def test_contradicting_options_are_refused(command: tuple[str, ...], advice: str) -> None:
    result = CliRunner().invoke(dead_letters.app, command)
    assert (result.exit_code, advice in " ".join(result.output.split())) == (2, True), result.output


def test_letter_named_twice_counts_once(tmp_path: Path) -> None:
    """So it can be replaced by a value; this one would become a dead letter again."""
    mended = tmp_path / "mended.json"
    mended.write_bytes(b"no JSON")
    result = CliRunner().invoke(dead_letters.app, ["replay", PLACE, PLACE, "--value", str(mended)])
    assert (result.exit_code, "would reject this value (invalid-json)" in result.output) == (1, True), result.output
