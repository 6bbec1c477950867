"""Apply moderation rules of stores to reviews, with all consequences in the transaction that writes the reviews."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from consumers.languages import detect_languages
from consumers.ratings import change_ratings
from consumers.services import Services
from domain.delivery import OutgoingMessage, in_parts
from domain.languages import detectable
from domain.moderation_rules import (
    NO_RULING,
    RuleInput,
    RuleSet,
    Ruling,
    is_duplicate,
    language_of_stranger,
    rule_input,
    text_keys,
)
from domain.moderation_rules_compiled import rule_set
from domain.places import entity_key
from domain.planned_approvals import PlannedApproval
from domain.ratings import Hundredths, RatingTally, TallyKey
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import Source
from domain.stores import Store
from domain.timestamps import moment_after
from messaging.events import review_approved
from messaging.metrics import RULINGS
from storage.audit import AuditAction, AuditEntry
from storage.unit_of_work import UnitOfWork

_CHARACTERS_IN_A_TURN: Final = 20_000
"""Number of characters after which other tasks get a turn, such as heartbeats to Kafka. A thread would compete with
them for the interpreter: with ten rules, a worker was 1.1 to 1.2 times as slow."""


class Ruled(NamedTuple):
    """A review with its ruling applied, the ruling, and the event, the command and the trace of its submission."""

    review: Review
    ruling: Ruling
    event: OutgoingMessage
    command_id: str | None = None
    trace: str = ""


_Judged = tuple[Review, RuleSet]
"""A review, and the rules of its store."""


async def compiled_rules(stores: Iterable[Store]) -> dict[str | None, RuleSet]:
    """The compiled rules of the stores that have any, by store id. Runs in a thread, as compiling takes long."""
    rules = {store.id: store.settings.moderation_rules for store in stores if store.settings.moderation_rules}
    return await asyncio.to_thread(lambda: {id: rule_set(each) for id, each in rules.items()}) if rules else {}


async def rulings_about(
    services: Services, reviews: Collection[Review], stores: Mapping[str, Store]
) -> dict[str, Ruling]:
    """The rulings for reviews that are about to be stored, by id; reviews for which no rule fires are left out."""
    # Imported reviews were moderated elsewhere.
    own = [review for review in reviews if review.facts.source is not Source.IMPORT]
    used = {review.store_id for review in own}
    sets = await compiled_rules(store for id, store in stores.items() if id in used)
    ruled = {review.id: (review, sets[review.store_id]) for review in own if review.store_id in sets}
    keys = {
        id: text_keys(review.identity, review.text)
        async for id, (review, rules) in _in_turns(ruled)
        if rules.looks_for_duplicates
    }
    languages = await languages_of_strangers((id, *each) for id, each in ruled.items())
    inputs = {id: _rule_input(review, languages) for id, (review, _) in ruled.items()}
    # Judge as if there were no duplicates, while the database looks for them.
    holders, rulings = await asyncio.gather(services.texts.holders(keys.items()), _judge_all(inputs, ruled))
    duplicates = {
        id: inputs[id]._replace(is_duplicate=True) for id, each in keys.items() if is_duplicate(id, each, holders)
    }
    rulings |= await _judge_all(duplicates, ruled)
    return {id: ruling for id, ruling in rulings.items() if ruling is not NO_RULING}


async def _in_turns(ruled: Mapping[str, _Judged]) -> AsyncIterator[tuple[str, _Judged]]:
    """Reviews by id, with pauses for other tasks."""
    for part in in_parts(ruled.items(), _CHARACTERS_IN_A_TURN, _length):
        for each in part:
            yield each
        await asyncio.sleep(0)


def _length(item: tuple[str, _Judged]) -> int:
    review = item[1][0]
    return len(review.text) + len(review.title or "")


def _rule_input(review: Review, languages: Mapping[str, str | None]) -> RuleInput:
    about = rule_input(review)
    return about._replace(language=languages[review.id]) if review.id in languages else about


async def _judge_all(inputs: Mapping[str, RuleInput], ruled: Mapping[str, _Judged]) -> dict[str, Ruling]:
    wanted = {id: ruled[id] for id in inputs}
    return {id: rules.judge(inputs[id]) async for id, (_, rules) in _in_turns(wanted)}


async def languages_of_strangers(
    reviews: Iterable[tuple[str, Review, RuleSet | None]],
) -> dict[str, str | None]:
    """The languages that rules use for reviews whose language only their authors name, by id."""
    named = {
        id: (review.facts.language, detectable(review.title, review.text))
        for id, review, rules in reviews
        if rules and rules.looks_at_languages and review.facts.is_language_of_stranger
    }
    found = await detect_languages([sample for _, sample in named.values()])
    return {
        id: language_of_stranger(language, each) for (id, (language, _)), each in zip(named.items(), found, strict=True)
    }


async def write_consequences(services: Services, stored: Collection[Ruled], work: UnitOfWork) -> None:
    """Update ratings, events, audit log and planned approvals for reviews that this transaction stores."""
    ratings = defaultdict[TallyKey, list[Hundredths]](list)
    for review, *_ in stored:
        if review.status is ReviewStatus.APPROVED:
            ratings[review.identity.key].append(review.rating)
    tallies = {key: RatingTally.of(each) for key, each in ratings.items()}
    for review, ruling, event, command_id, trace in stored:
        key = review.identity.key
        work.emit([event])
        if approval := ruling.approval:
            work.emit([approval_event(services, review.id, key, approval.subject, review.created, trace)])
        work.audit(ruling_audit_entries(ruling, review.id, key, review.created, command_id))
    await change_ratings(services, work, tallies)
    plans = ((review.id, planned_approval(review.id, ruling, review.created)) for review, ruling, *_ in stored)
    await work.repositories.planned_approvals.plan({id: plan for id, plan in plans if plan}, work.session)


def approval_event(
    services: Services, review_id: str, key: TallyKey, moderator: str, at: datetime, trace: str
) -> OutgoingMessage:
    """The event for a review that a rule or a verdict has approved."""
    data = review_approved(review_id, key, moderator, at)
    return services.event(entity_key(key.entity), "ReviewApproved", data, cause=trace)


def planned_approval(review_id: str, ruling: Ruling, at: datetime) -> PlannedApproval | None:
    """The approval that a ruling plans, if any."""
    if ruling.planned_approval is None:
        return None
    after, rule = ruling.planned_approval
    return PlannedApproval(review_id, moment_after(at, after), rule.subject)


def ruling_audit_entries(
    ruling: Ruling, review_id: str, key: TallyKey, at: datetime, command_id: str | None
) -> Iterator[AuditEntry]:
    """The audit entries of the rules that decided: the approving rule, or all that object."""
    approval = ruling.approval
    for rule in [approval] if approval else ruling.objections:
        entry = AuditEntry(at, rule.subject, AuditAction(rule.outcome.value), command_id=command_id)
        yield entry.about(review_id, key)


def count_rulings(rulings: Iterable[Ruling]) -> None:
    """Count the outcomes of rulings in the metrics, once they are stored."""
    for outcome, number in Counter([ruling.outcome for ruling in rulings]).items():
        if outcome:
            RULINGS.labels(outcome.value).inc(number)
