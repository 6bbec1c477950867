"""Store a batch of submissions, and decide on each: the loop over the table in `consumers.reviews.decisions`."""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from consumers.images.claims import claimable_images, with_claimed_images
from consumers.moderation_rules import Ruled, count_rulings, rulings_about, write_consequences
from consumers.names_known import KnownNames
from consumers.reviews.decisions import (
    Decision,
    SubmissionDecisions,
    edits_beside,
    first_to_store,
    stored_before,
    with_nothing_to_edit,
)
from consumers.reviews.events import publish_refusals, submitted_event
from consumers.reviews.rules import BatchRules
from consumers.reviews.submissions import Submission
from consumers.services import Services
from domain.commands import Outcome
from domain.review_tokens import ReviewToken
from domain.reviews import Review
from domain.reviews_edits import with_ruling
from domain.reviews_refusals import Refusal
from domain.unique_keys import only_review_key
from messaging.tracing import cause_of
from storage.review_tokens import UsedToken
from storage.reviews.ids import RefusedSubmission
from storage.unit_of_work import UnitOfWork

Tokens = Mapping[str, ReviewToken]
"""Review tokens, by the id of the review for which each is used up."""


@dataclass(frozen=True, slots=True)
class SubmissionStore:
    """Stores the reviews and the refused submissions of a batch, and adds the decisions about them.

    A review takes its id by being inserted; only the holders of ids that turn out to be taken are looked up. Review
    tokens are used up, and the consequences of moderation rules written, in the transaction that stores the reviews.
    """

    services: Services
    names: KnownNames
    rules: BatchRules
    decisions: SubmissionDecisions

    async def store(self) -> None:
        """Give each free id to a submission, and decide on each submission as if it had arrived alone."""
        decisions, waiting = self.decisions, dict[str, list[Submission]]()
        for submission in decisions.submissions.values():
            waiting.setdefault(submission.id, []).append(submission)
        while waiting:
            # In each round, as a submission that is refused while it is stored leaves its edits nothing to edit.
            orphans = with_nothing_to_edit(chain(*waiting.values()), decisions.reasons)
            decisions.reasons |= {each.key: Refusal.INCOMPLETE for each in orphans}
            firsts = {id: first_to_store(each, decisions.reasons) for id, each in waiting.items()}
            edits = {edit.key for each in waiting.values() for edit in edits_beside(each, decisions.reasons)}
            # Before anything is stored: a stored refusal isn't published again. Edits emit theirs in their transaction.
            await self._publish_new_refusals(each for each in chain(*waiting.values()) if each.key not in edits)
            taken = await self._insert(firsts.values())
            for id in firsts.keys() - taken:
                decisions.decide_beside(waiting.pop(id), edits)
            for id, holder in (await self.services.reviews.holders(taken)).items():
                if holder.refused is None:
                    decisions.decide_taken(waiting.pop(id), holder)
                elif await self._decide_anew(waiting[id], holder.refused):
                    del waiting[id]

    async def _publish_new_refusals(self, submissions: Iterable[Submission]) -> None:
        """Publish which of these submissions are refused, except those whose id has been given to a review, and the
        records that were refused before: the rules may have changed since a record was decided, and no event may say
        that a stored review is refused."""
        reasons, published = self.decisions.reasons, self.decisions.published
        refused = [each for each in submissions if each.key in reasons and each.key not in published]
        holders = await self.services.reviews.holders({each.id for each in refused})
        fresh = list[tuple[Submission, Refusal]]()
        for each in refused:
            holder = holders.get(each.id)
            part = each if holder is None else holder.refused and each.unseen(holder.refused.seen)
            if part:
                fresh.append((part, reasons[each.key]))
        await publish_refusals(self.services, fresh)
        published |= {each.key for each in refused}

    async def _insert(self, firsts: Collection[Submission]) -> Collection[str]:
        """Store one submission of each id, and decide on those that become reviews. Returns the ids that have to be
        looked up: they are taken, or their reviews couldn't get what belongs to them."""
        reasons = self.decisions.reasons
        accepted = {each.id: each for each in firsts if each.key not in reasons}
        reviews, ruled = await self._judged(accepted)
        tokens = {id: each.proof for id, each in accepted.items() if each.proof}
        whole = {id: review for id, review in reviews.items() if self._takes_transaction(review, ruled, tokens)}
        plain = [review for id, review in reviews.items() if id not in whole]
        refused = [each.refused(reasons[each.key]) for each in firsts if each.id not in accepted]
        taken = await self.services.reviews.insert(plain, refused)
        if whole:
            insert = partial(self._insert_whole, whole.values(), ruled, tokens)
            taken_too, lost = await self.services.transactions.run(insert)
            taken |= taken_too | lost.keys()
            count_rulings(each.ruling for id, each in ruled.items() if id not in taken)
            await self._refuse([(accepted[id], reason) for id, reason in lost.items()])
        for id, review in reviews.items():
            if id not in taken:
                stored = Decision(Outcome.APPLIED, is_stored=True, is_announced=id in ruled, review=review)
                self.decisions.decide(accepted[id], stored)
        return taken

    async def _decide_anew(self, of_one_id: Sequence[Submission], refused: RefusedSubmission) -> bool:
        """Decide on the submissions of an id that a refused one holds: anew, unless they have only the refused records,
        or repeat a command that was answered with that refusal. False: the id has to be looked up again, as its holder
        has changed meanwhile, or a review couldn't get what belongs to it."""
        decisions = self.decisions
        answered = await self.services.outcomes.answers([s.answer_key for s in of_one_id if s.review.command_id])
        for index, submission in enumerate(of_one_id):
            fresh = submission.unseen(refused.seen)
            if fresh is None:
                # The holder's reason may be that of another submission from its batch.
                reason = decisions.reasons.get(submission.key, refused.reason)
                decisions.decide(submission, Decision(Outcome.REFUSED, reason, is_repeat=True))
                continue
            is_answered = submission.answer_key in answered
            refusal = refused.reason if is_answered else await self._refusal(fresh)
            fresh = fresh.behind(refused.seen.positions())
            if refusal is None:
                stored = await self._replace(refused, fresh)
                if stored is None:
                    return False
                decisions.decide(submission, stored)
                decisions.decide_taken(of_one_id[index + 1 :], fresh.holder)
                return True
            before, refused = refused, fresh.refused(refusal, refused.seen)
            if not await self.services.reviews.replace_refused(before, refused):
                return False
            decisions.decide(submission, Decision(Outcome.REFUSED, refusal, is_repeat=True))
        return True

    async def _refusal(self, fresh: Submission) -> Refusal | None:
        """The reason to refuse a submission again, which is published; None: it is stored. The submission that it
        follows, if any, has been refused before."""
        reason = self.decisions.reasons.get(fresh.key) or (Refusal.INCOMPLETE if fresh.is_incomplete else None)
        if reason and fresh.key not in self.decisions.published:
            await self._refuse([(fresh, reason)])
        return reason

    async def _refuse(self, refused: Collection[tuple[Submission, Refusal]]) -> None:
        """Publish refusals that only storing revealed."""
        await publish_refusals(self.services, refused)
        self.decisions.reasons |= {submission.key: reason for submission, reason in refused}
        self.decisions.published |= {submission.key for submission, _ in refused}

    async def _replace(self, before: RefusedSubmission, fresh: Submission) -> Decision | None:
        """Replace a refused submission by a review with all that belongs to it. None: it has changed meanwhile, or the
        review couldn't get what belongs to it, and is refused."""
        reviews, ruled = await self._judged({fresh.id: fresh})
        review, lost = reviews[fresh.id], None
        tokens = {fresh.id: fresh.proof} if fresh.proof else {}
        if self._takes_transaction(review, ruled, tokens):
            replace_whole = partial(self._replace_whole, before, review, ruled, tokens)
            is_done, lost = await self.services.transactions.run(replace_whole)
        else:
            is_done = await self.services.reviews.replace_refused(before, review)
        if lost:
            await self._refuse([(fresh, lost)])
        if not is_done:
            return None
        count_rulings(each.ruling for each in ruled.values())
        return stored_before(fresh.created, is_announced=bool(ruled))

    async def _judged(self, accepted: Mapping[str, Submission]) -> tuple[dict[str, Review], dict[str, Ruled]]:
        """The reviews of submissions by id, with moderation rules applied, and those for which a rule fired."""
        reviews = {id: self.names.named(submission.accepted()) for id, submission in accepted.items()}
        ruled = {}
        for id, ruling in (await rulings_about(self.services, reviews.values(), self.rules.stores)).items():
            submission = accepted[id]
            review = reviews[id] = with_ruling(reviews[id], ruling)
            review.is_announced = True
            event = submitted_event(self.services, submission, review)
            trace = cause_of(submission.positions[0])
            ruled[id] = Ruled(review, ruling, event, submission.review.command_id, trace)
        return reviews, ruled

    def _takes_transaction(self, review: Review, ruled: Container[str], tokens: Container[str]) -> bool:
        """True if something is stored together with this review."""
        is_only = review.identity in self.rules.only_reviews
        return bool(review.images) or review.id in ruled or review.id in tokens or is_only

    async def _insert_whole(
        self, reviews: Collection[Review], ruled: Mapping[str, Ruled], tokens: Tokens, work: UnitOfWork
    ) -> tuple[set[str], dict[str, Refusal]]:
        """Store reviews with their unique keys, images, tokens and the consequences of rulings, in one transaction.

        Returns the ids that were taken, and, by id, the refusals of reviews that couldn't get what belongs to them.
        """
        repositories = work.repositories
        taken = set(await repositories.reviews.holders([review.id for review in reviews], work.session))
        stored, refused = await self._claim([review for review in reviews if review.id not in taken], tokens, work)
        await repositories.reviews.insert_free(stored, work.session)
        await write_consequences(self.services, [ruled[each.id] for each in stored if each.id in ruled], work)
        return taken, refused

    async def _replace_whole(
        self, before: RefusedSubmission, review: Review, ruled: Mapping[str, Ruled], tokens: Tokens, work: UnitOfWork
    ) -> tuple[bool, Refusal | None]:
        """Replace a refused submission by a review with all that belongs to it, in one transaction. Returns True if it
        was replaced, and the refusal if the review couldn't get what belongs to it."""
        reviews = work.repositories.reviews
        holder = (await reviews.holders([before.id], work.session)).get(before.id)
        if holder is None or holder.refused is None or holder.refused.seen != before.seen:
            return False, None
        stored, refused = await self._claim([review], tokens, work)
        if refused:
            return False, refused[review.id]
        if not await reviews.replace_refused(before, stored[0], work.session):
            return False, None
        await write_consequences(self.services, ruled.values(), work)
        return True, None

    async def _claim(
        self, reviews: Sequence[Review], tokens: Tokens, work: UnitOfWork
    ) -> tuple[list[Review], dict[str, Refusal]]:
        """Give new reviews their unique keys, images and tokens, one review after the other, so that a refused one
        takes nothing from the next. Returns the reviews that have all, and, by id, the refusals of the others."""
        repositories, now = work.repositories, datetime.now(UTC)
        keys = {each.id: only_review_key(each.identity) for each in reviews if each.identity in self.rules.only_reviews}
        holders = await repositories.unique_keys.holders([*keys.values()], work.session)
        named = {image.id for review in reviews for image in review.images}
        images = await claimable_images(named, self.rules.uploaded, now, work)
        users = await repositories.review_tokens.used({token.line for token in tokens.values()}, work.session)
        stored, refused, given_images = list[Review](), dict[str, Refusal](), dict[str, str]()
        given, used = dict[str, str](), list[UsedToken]()
        for review in reviews:
            key = keys.get(review.id)
            if key is not None and holders.get(key, review.id) != review.id:
                refused[review.id] = Refusal.DUPLICATE_REVIEW
                continue
            claimed = with_claimed_images(review, images) if review.images else review
            if isinstance(claimed, Refusal):
                refused[review.id] = claimed
                continue
            if token := tokens.get(review.id):
                if users.setdefault(token.line, review.id) != review.id:
                    refused[review.id] = Refusal.USED_PROOF
                    continue
                used.append(UsedToken(token, review.id))
            stored.append(claimed)
            if key is not None and key not in holders:
                holders[key] = given[key] = review.id
            if own_images := dict.fromkeys((image.id for image in claimed.images), review.id):
                given_images |= own_images
                images = images.claimed(own_images, review.id)
        await repositories.unique_keys.give(given, work.session)
        await repositories.images.give(given_images, now, work.session)
        await repositories.review_tokens.use(used, work.session)
        return stored, refused
