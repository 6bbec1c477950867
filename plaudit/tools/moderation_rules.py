"""`plaudit rules try`: applies moderation rules to the reviews in a file, on trial. Nothing is written."""

from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from domain.moderation_rules import ModerationRule, trial_rulings
from domain.moderation_rules_compiled import rule_set
from domain.quantities import quantity
from domain.reviews import Review
from messaging.moderation_rules import MODERATION_RULES
from messaging.moderation_rules_trial import TrialCounts, TriedRow, tried_row
from messaging.reading import Reader
from messaging.reading_errors import InvalidContentError
from plaudit.config import Settings
from plaudit.errors import UsageError
from plaudit.terminal import Terminal, shown
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.bad_rows import BadRowError
from plaudit.tools.imports.mapping import ColumnMapping, plain_name
from plaudit.tools.imports.options import check_text
from plaudit.tools.imports.past import feedback_in
from plaudit.tools.imports.rows import rows_of, with_pauses
from plaudit.tools.servers import reached
from plaudit.tools.stores import unknown_store
from storage.stores import StoreRepository

_YES: Final = ("true", "1", "yes")
_MOST_LISTED: Final = 1_000
"""Maximum number of bad rows in the result; all are printed to standard error."""
_OUTCOMES: Final = {"approve": "approved by", "hold": "held by", "flag": "flagged by"}


@dataclass(frozen=True, slots=True)
class RuleTrialOptions:
    """The options of a trial: the rules in a file, else those of a store."""

    file: Path
    format: FileFormat
    mapping: ColumnMapping
    store: str | None = None
    rules: Path | None = None


async def run_trial(settings: Settings, out: Terminal, errors: Terminal, options: RuleTrialOptions) -> int:
    """Print the effect of the rules on each review, and a summary; returns the number of bad rows.

    Memory holds one review, two digests of each one if a rule looks for duplicates, and the first bad rows.

    Raises UsageError: a file can't be used. Raises CommandError: the store doesn't exist.
    """
    rules = _rules_in(options.rules) if options.rules else await _rules_of(settings, options.store)
    bad, counts, bad_count = list[str](), TrialCounts(), 0
    # The trial takes each review from here as soon as it is read.
    reviews = deque[Review]()
    rulings = trial_rulings(rule_set(rules), iter(reviews.popleft, None))
    if not options.file.is_file():
        raise UsageError(f"{options.file} is no regular file, whose beginning can be read twice: save it as one first.")
    with options.file.open("rb") as file:
        check_text(file, options.file)
        async for read in _reviews(file, options):
            if isinstance(read, str):
                bad_count += 1
                errors.print(read)
                if bad_count <= _MOST_LISTED:
                    bad.append(read)
                continue
            reviews.append(read)
            counts.add(row := tried_row(*next(rulings)))
            out.add_row("reviews", row)
            out.print(f"{shown(row['id'])}: {_effect(row)}")
    summary = counts.summary()
    out.set_result({"reviews": [], "summary": summary, "badRows": bad, "badRowCount": bad_count})
    out.print(
        f"{quantity(summary['reviews'], 'review')}: {summary['approved']} approved, {summary['held']} held, "
        f"{summary['flagged']} flagged, {summary['untouched']} unaffected; {quantity(bad_count, 'bad row')}."
    )
    for rule, number in summary["rules"].items():
        out.print(f"{shown(rule)}: {number}")
    return bad_count


def _effect(row: TriedRow) -> str:
    if row["outcome"] is None:
        return "no rule fires"
    rules = [row["approvedBy"] or ""] if row["outcome"] == "approve" else row["flags"]
    hours = row["publishAfterHours"]
    later = f", and approved after {quantity(hours, 'hour')}" if hours else ""
    return f"{_OUTCOMES[row['outcome']]} {', '.join(map(shown, rules))}{later}"


def _rules_in(file: Path) -> tuple[ModerationRule, ...]:
    try:
        return tuple(fields.rule() for fields in Reader(MODERATION_RULES)(file.read_bytes()))
    except InvalidContentError as error:
        raise UsageError(f"The rules in {file} can't be used: {error}") from None


async def _rules_of(settings: Settings, store_id: str | None) -> tuple[ModerationRule, ...]:
    if store_id is None:
        raise UsageError("Name a store with --store, or a file of rules with --rules.")
    async with reached(settings) as (database, _):
        store = await StoreRepository(database).get(store_id)
        if store is None:
            raise await unknown_store(database, store_id)
    return store.settings.moderation_rules


async def _reviews(file: BinaryIO, options: RuleTrialOptions) -> AsyncIterator[Review | str]:
    """The reviews in a file, and the fault of each bad row. Rows of feedback are left out."""
    at = datetime.now(UTC)
    names, header = options.mapping.header(file, options.format)
    rows = rows_of(file, options.format, names, offset=header.end, line=header.end_line)
    async for row in with_pauses(rows):
        try:
            if row.columns is None:
                raise BadRowError(row.fault)
            if options.format is FileFormat.JSONL and feedback_in(row.columns):
                continue
            submitted = options.mapping.submission(row.columns, is_text=options.format is FileFormat.CSV)
        except BadRowError as error:
            yield f"line {row.line}: {error}"
            continue
        review = submitted.accepted(submitted.id or str(row.line), at)
        review.facts = review.facts._replace(**_facts(row.columns, submitted.language))
        yield review


def _facts(columns: dict[str, Any], language: str | None) -> dict[str, Any]:
    """The facts of a row: its language, and the one of an export that a submission can't have."""
    facts: dict[str, Any] = {"language": language} if language else {}
    for name, value in columns.items():
        if plain_name(name) == "verifiedpurchase":
            facts["verified_purchase"] = str(value).strip().lower() in _YES
    return facts
