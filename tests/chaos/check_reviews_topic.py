"""Checks the topic of reviews."""

from tests.chaos.difference import Difference
from tests.support.reviews_topic import latest, stored
from tests.support.service import Service


async def wrong_topic(service: Service) -> list[Difference]:
    """The topic of reviews, read from its beginning, has every field of every review as the database does. No relay
    found reviews in it that the database lacks, which only a restore does."""
    topic, database = await latest(service), await stored(service)
    async with service.mongo() as servers:
        missing = (await servers["relays"].find_one({"_id": "reviews"}) or {}).get("missing", ())
    return [
        *(Difference("relayed", id, "noted as missing without a restore") for id in missing),
        *(
            Difference("relayed", id, f"topic has {topic.get(id)}, database has {database.get(id)}")
            for id in sorted(topic.keys() | database.keys())
            if topic.get(id) != database.get(id)
        ),
    ]
