"""Counts of reviews, from tallies and indexes where possible."""

import asyncio
from dataclasses import replace

from api.counts import LARGE
from api.services import Services
from domain.reviews import ReviewStatus
from storage.reviews.search import ReviewSearch, are_tallied


async def count_reviews(services: Services, search: ReviewSearch) -> int:
    """The total number of matching reviews. A large number may be a second old, or as old as the relay."""
    same = replace(search, sort=(), skip=0, take=0, after=None)

    async def count() -> int:
        statuses = set(same.statuses or ())
        if statuses > {ReviewStatus.APPROVED} and are_tallied(replace(same, statuses=[ReviewStatus.APPROVED])):
            # Tallies have the approved ones, and the queue the others: MongoDB would read all of both.
            return sum([await count_reviews(services, replace(same, statuses=[each])) for each in statuses])
        approved = await services.ratings.count_reviews(same)
        return await services.reviews.count(same, exact_below=LARGE) if approved is None else approved

    return await services.large_counts.of(same, count)


async def counts_by_status(services: Services, search: ReviewSearch) -> dict[ReviewStatus, int]:
    """The number of matching reviews in each status; the statuses of the search are ignored."""

    def of(*statuses: ReviewStatus) -> ReviewSearch:
        return replace(search, statuses=statuses or None)

    approved = of(ReviewStatus.APPROVED)
    # Nearly all are approved, and no index separates them: instead, an index counts those of all statuses.
    by_difference = not are_tallied(approved) and search.phrase is None
    others = [status for status in ReviewStatus if status is not ReviewStatus.APPROVED]
    all_or_approved, *counted = await asyncio.gather(
        count_reviews(services, of() if by_difference else approved),
        *(count_reviews(services, of(status)) for status in others),
    )
    count = max(0, all_or_approved - sum(counted)) if by_difference else all_or_approved
    return {ReviewStatus.APPROVED: count, **dict(zip(others, counted, strict=True))}
