"""`plaudit reviews report`: decisions on reviews by stars and reason, and a test if low ratings are rejected more.

For 16 CFR 465, which forbids suppressing reviews by their rating.
"""

import csv
import sys
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final, TextIO

from rich.table import Table
from typing_extensions import TypedDict

from domain.csv_cells import cell_of
from domain.policy import HIGH_STARS, LOW_STARS, Decisions, rejects_low_more
from domain.ratings import STARS
from domain.reviews import ReviewStatus
from domain.timestamps import timestamp
from plaudit.config import Settings
from plaudit.terminal import Terminal
from plaudit.tools.servers import reached
from plaudit.tools.stores import check_registered
from storage.policy import DecisionCounts, DecisionReport

NO_REASON: Final = "none"
"""Replaces the reason code of rejections that have none."""

_FIGURES: Final = ("submitted", "approved", "rejected", "waiting")
"""The numbers of reviews, in the order of the tables."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of a report: the store, None for all, and the time of submission; `until` is exclusive."""

    store: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class StarsReported(TypedDict):
    """Reviews with one number of stars; `rejectedShare` is that of the decided ones, null if there are none."""

    stars: int
    submitted: int
    approved: int
    rejected: int
    waiting: int
    rejectedShare: float | None


class Report(TypedDict):
    """The report as JSON; `damaged` is the number of reviews that are left out of all other numbers."""

    storeId: str | None
    since: str | None
    until: str | None
    submitted: int
    approved: int
    rejected: int
    waiting: int
    byStars: list[StarsReported]
    rejectedByReason: dict[str, int]
    medianSecondsToDecision: float | None
    rejectedShareOfLowStars: float | None
    rejectedShareOfHighStars: float | None
    lowStarsRejectedMoreOften: bool
    damaged: int


async def run_report(settings: Settings, out: Terminal, options: ReportOptions, *, as_csv: bool) -> None:
    """Print the report. Raises CommandError: the store is unknown."""
    async with reached(settings) as (database, _):
        await check_registered(database, options.store)
        found = await DecisionCounts(database).report(options.store, options.since, options.until)
    report = report_of(options, found)
    out.set_result(report)
    if as_csv:
        write_csv(report, sys.stdout)
    else:
        _print_tables(out, report)


def report_of(options: ReportOptions, found: DecisionReport) -> Report:
    """The report on these decisions."""
    decisions = found.decisions
    return {
        "storeId": options.store,
        "since": timestamp(options.since) if options.since else None,
        "until": timestamp(options.until) if options.until else None,
        "submitted": decisions.submitted,
        "approved": decisions.total(ReviewStatus.APPROVED),
        "rejected": decisions.total(ReviewStatus.REJECTED),
        "waiting": decisions.total(ReviewStatus.NEW),
        "byStars": [_stars(decisions, stars) for stars in STARS],
        "rejectedByReason": {
            reason or NO_REASON: count
            for reason, count in sorted(decisions.by_reason.items(), key=lambda item: -item[1])
        },
        "medianSecondsToDecision": round(median(found.seconds), 3) if found.seconds else None,
        "rejectedShareOfLowStars": _rounded(decisions.rejected_share(LOW_STARS)),
        "rejectedShareOfHighStars": _rounded(decisions.rejected_share(HIGH_STARS)),
        "lowStarsRejectedMoreOften": rejects_low_more(decisions),
        "damaged": found.damaged,
    }


def _stars(decisions: Decisions, stars: int) -> StarsReported:
    numbers = {status: decisions.by_stars[status][stars] for status in ReviewStatus}
    return {
        "stars": stars,
        "submitted": sum(numbers.values()),
        "approved": numbers[ReviewStatus.APPROVED],
        "rejected": numbers[ReviewStatus.REJECTED],
        "waiting": numbers[ReviewStatus.NEW],
        "rejectedShare": _rounded(decisions.rejected_share([stars])),
    }


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)


def write_csv(report: Report, file: TextIO) -> None:
    """Write the report as one table for spreadsheets, with the columns figure, of and value."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["figure", "of", "value"])
    for name in ("storeId", "since", "until"):
        rows.writerow([name, "", cell_of(report[name] or "")])
    for figure in _FIGURES:
        rows.writerow([figure, "", report[figure]])
        rows.writerows([figure, f"{each['stars']} stars", each[figure]] for each in report["byStars"])
    rows.writerows(["rejectedShare", f"{each['stars']} stars", each["rejectedShare"]] for each in report["byStars"])
    rows.writerow(["rejectedShare", "1 to 2 stars", report["rejectedShareOfLowStars"]])
    rows.writerow(["rejectedShare", "4 to 5 stars", report["rejectedShareOfHighStars"]])
    rows.writerows(["rejected", reason, count] for reason, count in report["rejectedByReason"].items())
    rows.writerow(["medianSecondsToDecision", "", report["medianSecondsToDecision"]])
    rows.writerow(["lowStarsRejectedMoreOften", "", str(report["lowStarsRejectedMoreOften"]).lower()])
    rows.writerow(["damaged", "", report["damaged"]])


def _print_tables(out: Terminal, report: Report) -> None:
    table = Table("Stars", "Submitted", "Approved", "Rejected", "Waiting", "Rejected, of those decided")
    for each in reversed(report["byStars"]):
        numbers = [str(each[figure]) for figure in _FIGURES]
        table.add_row(str(each["stars"]), *numbers, _percent(each["rejectedShare"]))
    table.add_row("all", *(str(report[figure]) for figure in _FIGURES), "")
    out.print(table)
    for reason, count in report["rejectedByReason"].items():
        out.print(f"Rejected as {reason}: {count}")
    if report["medianSecondsToDecision"] is not None:
        out.print(f"Median time to a decision: {report['medianSecondsToDecision'] / 3600:.1f} h")
    low, high = (_percent(report[name]) for name in ("rejectedShareOfLowStars", "rejectedShareOfHighStars"))
    out.print(f"Rejected with 1 or 2 stars: {low}; with 4 or 5 stars: {high}.")
    if report["lowStarsRejectedMoreOften"]:
        out.print("Low ratings are rejected more often than chance explains. Check the reasons.", style="red")
    else:
        out.print("Low ratings are not rejected more often than chance explains.")
    if report["damaged"]:
        out.print(f"Damaged reviews, left out: {report['damaged']}", style="red")


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
