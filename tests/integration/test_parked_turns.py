"""Parked commands and verdicts take effect in the order of their topic, regardless of record times."""

from functools import partial
from hashlib import sha256
from time import time

import pytest

from tests.support.facade import Facade, new_id, submission
from tests.support.messages import Message, message, moderation
from tests.support.service import Service
from tests.support.waiting import eventually

NOW_MS = int(time() * 1000)


def back_in_time(*messages: Message) -> list[Message]:
    """Return the messages with sender times in reverse order, each a minute before the previous one."""
    return [each._replace(timestamp=NOW_MS - 60_000 * place) for place, each in enumerate(messages)]


async def until_parked(service: Service, id: str, count: int) -> None:
    async with service.mongo() as database:
        parked = [database[name] for name in ("parkedCommands", "parkedVerdicts")]

        async def waiting() -> int:
            return sum([await each.count_documents({"reviewId": id}) for each in parked])

        await eventually(waiting, lambda found: found == count)


async def test_last_command_counts_regardless_of_time(facade: Facade, service: Service, product: str) -> None:
    id = new_id("review")
    vote = {"reviewId": id, "userId": "u"}
    feedback = [
        message({"action": "reply", "reviewId": id, "text": "First"}, id),
        message({"action": "vote", **vote, "helpful": True}, id),
        message({"action": "reply", "reviewId": id, "text": "Last"}, id),
        message({"action": "vote", **vote, "helpful": False}, id),
    ]
    await service.publish("moderation-commands", *back_in_time(moderation("approve", id), moderation("reject", id)))
    await service.publish("review-feedback", *back_in_time(*feedback))
    await until_parked(service, id, 6)
    await facade.submit(submission(product, id=id))
    await until_parked(service, id, 0)
    review = await facade.review(id)
    assert (review["reviewStatus"], review["reply"]["text"]) == ("Rejected", "Last")
    assert (review["helpful"], review["notHelpful"]) == (0, 1)


@pytest.mark.parametrize("is_early", [True, False], ids=["parked", "at once"])
async def test_last_verdict_counts_regardless_of_time(
    facade: Facade, service: Service, product: str, is_early: bool
) -> None:
    review = submission(product, id=new_id("review"), title="Good")
    text = sha256(f"{review['title']}\n{review['review']}".encode()).hexdigest()
    id = review["id"]

    def verdict(outcome: str) -> Message:
        return message({"reviewId": id, "textHash": text, "source": "ai", "verdict": outcome}, id)

    verdicts = back_in_time(verdict("flag"), verdict("approve"))
    if is_early:
        await service.publish("moderation-verdicts", *verdicts)
        await until_parked(service, id, 2)
    await facade.submit(review)
    if not is_early:
        await service.publish("moderation-verdicts", *verdicts)
    await eventually(partial(facade.review, id), lambda found: found["reviewStatus"] == "Approved")
    assert (await facade.review(id))["flags"] == []


@pytest.mark.kafka
async def test_first_of_two_changes_from_one_record_counts(facade: Facade, service: Service, product: str) -> None:
    """No router publishes such changes, but anybody who may write to the topic can."""
    id, key = new_id("review"), f"Product:{product}"
    rejection = {"kind": "moderation", "reviewId": id, "source": [0, 0, NOW_MS], "action": "reject"}
    past = {"status": "Approved", "modifiedDate": "2026-01-01T00:00:00Z"}
    restoration = {**rejection, "action": "restore", "restored": past}
    await service.publish("review-changes", message(rejection, key), message(restoration, key))
    await until_parked(service, id, 1)
    await service.idle()
    await facade.submit(submission(product, 5, id=id))
    await until_parked(service, id, 0)
    assert (await facade.review(id))["reviewStatus"] == "Rejected"
