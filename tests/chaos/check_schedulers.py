"""Checks that one scheduler works at a time."""

import json
from collections import defaultdict

from tests.chaos.difference import Difference
from tests.chaos.fleet import Fleet
from tests.chaos.model import Model


def wrong_schedulers(fleet: Fleet, model: Model) -> list[Difference]:
    """A scheduler works, and only one at a time. Two may work in the same minute when one takes over, but not in
    most minutes."""
    at_work: dict[str, set[str]] = defaultdict(set)
    for log in fleet.service.folder.glob("scheduler-*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if '"reminders sent"' in line:
                at_work[json.loads(line)["timestamp"][:16]].add(log.stem)
    if not at_work and model.mails and fleet.names("scheduler"):
        return [Difference("lost", "scheduler", "no scheduler has sent reminders")]
    shared = [minute for minute, schedulers in at_work.items() if len(schedulers) > 1]
    if len(shared) < 2 or len(shared) <= len(at_work) / 2:
        return []
    what = f"several schedulers worked in {len(shared)} of {len(at_work)} minutes: {shared[:5]}"
    return [Difference("duplicated", "scheduler", what)]
