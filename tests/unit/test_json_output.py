"""The `--json` option of the commands."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from plaudit.cli.main import app
from plaudit.terminal import Terminal, output

PROCESSES = {"up", "api", "worker", "scheduler", "mailer"}
"""Processes that run until they are stopped; they print only a log, which `PLAUDIT_LOG__FORMAT=json` makes JSON."""


def commands(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """All commands with their full names."""
    if not hasattr(group, "commands"):
        yield " ".join(names), group
        return
    for name, command in group.commands.items():
        yield from commands(command, *names, name)


def test_commands_with_output_have_json_option() -> None:
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(typer.main.get_command(app))
    }
    assert set(options) > PROCESSES
    assert {name for name, known in options.items() if "--json" not in known} == PROCESSES


def test_json_output_is_nothing_but_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    out = Terminal()
    with output(out, as_json=True) as terminal, terminal.status("Working"):
        terminal.print("One line")
        terminal.set_result({"count": 1})
    assert json.loads(capsys.readouterr().out) == {"count": 1}
    with output(out, as_json=False) as terminal:
        terminal.print("One line")
        terminal.set_result({"count": 1})
    assert capsys.readouterr().out == "One line\n"
