"""Store submitted reviews: the first submission of each free id, and of a refused one that the rules allow by now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from consumers.images.claims import claimable_images, with_claimed_images
from consumers.moderation_rules import Ruled, count_rulings, rulings_about, write_consequences
from consumers.names_known import KnownNames
from consumers.reviews.decisions import Decided, Decision, Inserted, decide_at, stored_before, undecided_part
from consumers.reviews.events import publish_refusals, submitted_event
from consumers.reviews.rules import BatchRules
from consumers.reviews.submissions import Key, Submission
from consumers.services import Services
from domain.commands import Outcome
from domain.reviews import Review
from domain.reviews_edits import with_ruling
from domain.reviews_refusals import Refusal
from messaging.tracing import cause_of
from storage.reviews.ids import IdHolder, RefusedSubmission
from storage.unit_of_work import UnitOfWork


class _StoredWith(NamedTuple):
    """The data that is stored together with reviews, by review id."""

    unique_keys: Mapping[str, str]
    ruled: Mapping[str, Ruled]
    uploaded: Collection[str]
    """Ids of images that are uploaded but not rebuilt yet."""

    def concerns(self, review: Review) -> bool:
        """True if something is stored together with this review, so that it takes a transaction."""
        return bool(review.images) or review.id in self.unique_keys or review.id in self.ruled


class _Replaced(NamedTuple):
    """The finding of replacing a refused submission. With neither, the submission has changed meanwhile."""

    decision: Decision | None = None
    lost: Refusal | None = None
    """The refusal of a review whose unique key or image turned out to belong to another."""


@dataclass(frozen=True, slots=True)
class SubmissionStore:
    """Stores reviews with the consequences of the moderation rules, and publishes the refusals that only storing
    reveals."""

    services: Services
    names: KnownNames

    async def insert(self, firsts: Iterable[Submission], rules: BatchRules) -> Inserted:
        """Store new submissions, one of each id."""
        accepted: dict[str, Submission] = {}
        refused: list[RefusedSubmission] = []
        for submission in firsts:
            if reason := rules.reasons.get(submission.key):
                refused.append(submission.refused(reason))
            else:
                accepted[submission.id] = submission
        reviews, stored_with = await self._judge(accepted, rules)
        ruled = stored_with.ruled
        unruled = {accepted[id].key: review for id, review in reviews.items() if id not in ruled}
        whole = [review for review in reviews.values() if stored_with.concerns(review)]
        plain = [review for review in reviews.values() if not stored_with.concerns(review)]
        taken = await self.services.reviews.insert(plain, refused)
        if not whole:
            return Inserted(taken, unruled)
        insert = partial(_insert_whole, self.services, whole, stored_with)
        taken_too, lost = await self.services.transactions.run(insert)
        announced = ruled.keys() - taken_too - lost.keys()
        count_rulings(ruled[id].ruling for id in announced)
        await publish_refusals(self.services, ((accepted[id], reason) for id, reason in lost.items()))
        refusals = {accepted[id].key: reason for id, reason in lost.items()}
        return Inserted(taken | taken_too | lost.keys(), unruled, announced, refusals)

    async def decide(
        self, of_one_id: Sequence[Submission], holder: IdHolder, rules: BatchRules, edits: Collection[Key]
    ) -> Decided:
        """Decide on the submissions of a taken id, until its holder turns out to have changed meanwhile. Refusals by
        the rules are published already, except those of `edits`.

        A submission that was refused before is decided anew, unless it has only the refused records, or repeats a
        command that was answered with that refusal.
        """
        keys = [each.answer_key for each in of_one_id if each.review.command_id] if holder.refused else []
        answered = await self.services.outcomes.answers(keys)
        decisions: list[tuple[Submission, Decision | None]] = []
        lost: dict[Key, Refusal] = {}
        for submission in of_one_id:
            decision: Decision | None
            reason: Refusal | None
            if holder.refused is None:
                decision = decide_at(submission, holder)
                # Of several submissions with the same time the first one was stored.
                is_stored = decision is not None and decision.is_stored
                holder = replace(holder, is_announced=holder.is_announced or is_stored)
            elif (fresh := undecided_part(submission, holder)) is None:
                # The reason of the holder may be that of another submission from its batch.
                reason = rules.reasons.get(submission.key, holder.refused.reason)
                decision = Decision(Outcome.REFUSED, reason, is_repeat=True)
            else:
                reason = holder.refused.reason
                if submission.answer_key not in answered:
                    reason = await self._refusal(fresh, rules, lost, is_edit=fresh.key in edits)
                fresh = fresh.behind(holder.refused.seen.positions())
                after = fresh.refused(reason, holder.refused.seen) if reason else None
                decision, lost_now = await self._replace(holder.refused, after, fresh, rules)
                if decision is None:
                    return Decided(decisions, lost | ({fresh.key: lost_now} if lost_now else {}), is_complete=False)
                holder = fresh.holder(after)
            decisions.append((submission, decision))
        return Decided(decisions, lost)

    async def _refusal(
        self, fresh: Submission, rules: BatchRules, lost: dict[Key, Refusal], *, is_edit: bool
    ) -> Refusal | None:
        """The reason to refuse a submission again, published and, if it is new, added to `lost`; None: it is stored.
        The submission that it follows, if any, has been refused before."""
        reason = rules.reasons.get(fresh.key)
        if reason is None and fresh.is_incomplete:
            reason = lost[fresh.key] = Refusal.INCOMPLETE
        elif not is_edit:
            return reason
        await publish_refusals(self.services, [(fresh, reason)] if reason else [])
        return reason

    async def _replace(
        self, before: RefusedSubmission, after: RefusedSubmission | None, fresh: Submission, rules: BatchRules
    ) -> _Replaced:
        """Replace a refused submission by a later refusal, or else by the review with all that belongs to it."""
        if after:
            is_done = await self.services.reviews.replace_refused(before, after)
            return _Replaced(Decision(Outcome.REFUSED, after.reason, is_repeat=True) if is_done else None)
        reviews, stored_with = await self._judge({fresh.id: fresh}, rules)
        review, lost = reviews[fresh.id], None
        if stored_with.concerns(review):
            swap = partial(_replace_whole, self.services, before, review, stored_with)
            is_done, lost = await self.services.transactions.run(swap)
        else:
            is_done = await self.services.reviews.replace_refused(before, review)
        if is_done:
            count_rulings(each.ruling for each in stored_with.ruled.values())
            return _Replaced(stored_before(fresh.created, is_announced=bool(stored_with.ruled)))
        await publish_refusals(self.services, [(fresh, lost)] if lost else [])
        return _Replaced(lost=lost)

    async def _judge(
        self, accepted: Mapping[str, Submission], rules: BatchRules
    ) -> tuple[dict[str, Review], _StoredWith]:
        """The reviews of submissions by id, with moderation rules applied, and the data to store together with them."""
        reviews = {id: self.names.named(submission.accepted()) for id, submission in accepted.items()}
        ruled = {}
        for id, ruling in (await rulings_about(self.services, reviews.values(), rules.stores)).items():
            submission = accepted[id]
            review = reviews[id] = with_ruling(reviews[id], ruling)
            review.is_announced = True
            event = submitted_event(self.services, submission, review)
            trace = cause_of(submission.positions[0])
            ruled[id] = Ruled(review, ruling, event, submission.review.command_id, trace)
        unique_keys = {id: rules.unique_keys[s.key] for id, s in accepted.items() if s.key in rules.unique_keys}
        return reviews, _StoredWith(unique_keys, ruled, rules.uploaded)


async def _insert_whole(
    services: Services, reviews: Sequence[Review], stored_with: _StoredWith, work: UnitOfWork
) -> tuple[set[str], dict[str, Refusal]]:
    """Store reviews with their unique keys, their images and the consequences of rulings, in one transaction.

    Returns the ids that were taken, and, by id, the refusals of reviews that couldn't get a unique key or an image.
    """
    repositories = work.repositories
    taken = set(await repositories.reviews.holders([review.id for review in reviews], work.session))
    free = [review for review in reviews if review.id not in taken]
    stored, refused = await _claim(free, stored_with, work)
    await repositories.reviews.insert_free(stored, work.session)
    ruled = [stored_with.ruled[review.id] for review in stored if review.id in stored_with.ruled]
    await write_consequences(services, ruled, work)
    return taken, refused


async def _replace_whole(
    services: Services, before: RefusedSubmission, review: Review, stored_with: _StoredWith, work: UnitOfWork
) -> tuple[bool, Refusal | None]:
    """Replace a refused submission by a review with all that belongs to it, in one transaction. Returns True if it was
    replaced, and the refusal if the review couldn't get its unique key or an image."""
    repositories = work.repositories
    holder = (await repositories.reviews.holders([before.id], work.session)).get(before.id)
    if holder is None or holder.refused is None or holder.refused.seen != before.seen:
        return False, None
    stored, refused = await _claim([review], stored_with, work)
    if refused:
        return False, refused[review.id]
    if not await repositories.reviews.replace_refused(before, stored[0], work.session):
        return False, None
    await write_consequences(services, list(stored_with.ruled.values()), work)
    return True, None


async def _claim(
    reviews: Sequence[Review], stored_with: _StoredWith, work: UnitOfWork
) -> tuple[list[Review], dict[str, Refusal]]:
    """Give new reviews their unique keys and images, one review after the other, so that a refused one takes nothing
    from the next. Returns the reviews that have all, and, by id, the refusals of the others."""
    repositories, now = work.repositories, datetime.now(UTC)
    keys = {review.id: stored_with.unique_keys[review.id] for review in reviews if review.id in stored_with.unique_keys}
    holders = await repositories.unique_keys.holders([*keys.values()], work.session)
    named = {image.id for review in reviews for image in review.images}
    images = await claimable_images(named, stored_with.uploaded, now, work)
    stored, refused, given_images = list[Review](), dict[str, Refusal](), dict[str, str]()
    given = dict[str, str]()
    for review in reviews:
        key = keys.get(review.id)
        if key is not None and holders.get(key, review.id) != review.id:
            refused[review.id] = Refusal.DUPLICATE_REVIEW
            continue
        claimed = with_claimed_images(review, images) if review.images else review
        if isinstance(claimed, Refusal):
            refused[review.id] = claimed
            continue
        stored.append(claimed)
        if key is not None and key not in holders:
            holders[key] = given[key] = review.id
        if own_images := dict.fromkeys((image.id for image in claimed.images), review.id):
            given_images |= own_images
            images = images.claimed(own_images, review.id)
    await repositories.unique_keys.give(given, work.session)
    await repositories.images.give(given_images, now, work.session)
    return stored, refused
