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


def test_every_command_that_prints_something_prints_json_if_asked() -> None:
    options = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands(typer.main.get_command(app))
    }
    assert set(options) > PROCESSES
    assert {name for name, known in options.items() if "--json" not in known} == PROCESSES


def test_nothing_else_is_printed_then(capsys: pytest.CaptureFixture[str]) -> None:
    out = Terminal()
    with output(out, as_json=True) as told, told.status("Working"):
        told.print("One line")
        told.set_result({"count": 1})
    assert json.loads(capsys.readouterr().out) == {"count": 1}
    with output(out, as_json=False) as told:
        told.print("One line")
        told.set_result({"count": 1})
    assert capsys.readouterr().out == "One line\n"
