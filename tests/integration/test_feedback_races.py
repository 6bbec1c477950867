"""Concurrent voters with redeliveries: the counters match a simple model."""

import os
import random
from collections import Counter
from functools import partial

import pytest

from tests.support.facade import Facade, new_id, submission
from tests.support.messages import Message, message
from tests.support.service import Service
from tests.support.waiting import eventually

VOTES = int(os.environ.get("PLAUDIT_TEST_VOTES", "2000"))
"""100,000 in `make test-slow`."""

VOTERS, REVIEWS = 1_000, 20
TOPIC = "review-feedback"


def a_vote(chance: random.Random, ids: list[str]) -> tuple[tuple[str, str], bool | None]:
    """Return a random vote, on some reviews more often than on others; None withdraws the vote."""
    review = ids[min(chance.randrange(REVIEWS), chance.randrange(REVIEWS))]
    return (review, f"voter{chance.randrange(VOTERS)}"), chance.choice([True, True, False, None])


def vote_message(key: tuple[str, str], helpful: bool | None) -> Message:
    review, voter = key
    action = {"action": "remove-vote"} if helpful is None else {"action": "vote", "helpful": helpful}
    return message({**action, "reviewId": review, "userId": voter}, review)


async def shown(facade: Facade, ids: list[str]) -> dict[str, tuple[int, int]]:
    page = await facade.http.post("/api/customerReviews/search", json={"ids": ids, "take": REVIEWS})
    return {row["id"]: (row["helpful"], row["notHelpful"]) for row in page.json()["results"]}


@pytest.mark.slow
@pytest.mark.kafka
async def test_last_vote_of_each_voter_counts_once(own_service: Service, own_facade: Facade, product: str) -> None:
    chance = random.Random(VOTES)
    ids = await own_facade.submit(*(submission(product, 4, id=new_id("review")) for _ in range(REVIEWS)))
    votes = [a_vote(chance, ids) for _ in range(VOTES)]
    half = len(votes) // 2
    await own_service.publish(TOPIC, *(vote_message(*vote) for vote in votes[:half]))
    # The killed worker has made changes without committing their offsets; a second one joins.
    own_service.start("worker", "worker-2")
    await own_service.until_ready()
    own_service.processes.pop("worker").kill()
    await own_service.publish(TOPIC, *(vote_message(*vote) for vote in votes[half:]))
    await eventually(partial(own_service.lag, TOPIC), lambda lag: lag == 0, deadline_s=300)

    last = dict(votes)
    counts = Counter((review, helpful) for (review, _), helpful in last.items())
    expected = {id: (counts[id, True], counts[id, False]) for id in ids}
    assert await shown(own_facade, ids) == expected
    # Redelivers everything.
    await own_service.stop("worker-2")
    await own_service.rewind()
    assert await own_service.lag(TOPIC) == VOTES
    own_service.start("worker", "worker-3")
    await own_service.until_ready()
    await eventually(partial(own_service.lag, TOPIC), lambda lag: lag == 0, deadline_s=300)
    assert await shown(own_facade, ids) == expected
    async with own_service.mongo() as database:
        stored = {
            (each["_id"]["reviewId"], each["_id"]["userId"]): each["helpful"]
            for each in await database["votes"].find().to_list()
        }
    assert stored == last
