"""`plaudit doctor`."""

from __future__ import annotations

import logging
from typing import Annotated

import typer
import uvloop

from plaudit.cli.command_line import out
from plaudit.config import LogSettings
from plaudit.processes.logs import configure_logs


def doctor(as_json: Annotated[bool, typer.Option("--json", help="As a JSON array.")] = False) -> None:
    """Check configuration, servers, topics, indexes and backlogs, and say what to do; exit code 1 if any failed."""
    from plaudit.tools.doctor.examination import examine

    # The clients log at length what the findings say in a line.
    configure_logs(LogSettings(level="error"))
    for talkative in ("aiokafka", "asyncio"):
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
    if not uvloop.run(examine(out, as_json=as_json)):
        raise typer.Exit(1)
