"""The limit for the facade: bare FastAPI endpoints that publish with acks=all, or return prepared JSON or bytes."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import uvicorn
from aiokafka import AIOKafkaProducer
from fastapi import FastAPI, Response

from messaging.topics import Topic
from plaudit.config import Settings

SUMMARY = b'{"value":3.5,"average":3.5,"reviewCount":2,"histogram":{"1":0,"2":0,"3":1,"4":1,"5":0}}'
settings = Settings()
topic = settings.topics.name(Topic.REVIEW_SUBMISSIONS)
producers: list[AIOKafkaProducer] = []


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Start a producer."""
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka_connection().bootstrap_servers, acks="all", enable_idempotence=True
    ) as producer:
        producers.append(producer)
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/publish", status_code=202)
async def publish(reviews: list[dict[str, Any]]) -> dict[str, Any]:
    """Publish each review."""
    for review in reviews:
        await producers[0].send_and_wait(topic, orjson.dumps(review), review["EntityId"].encode())
    return {"outcome": "accepted"}


@app.post("/ratings")
async def ratings(query: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the same rating for every object."""
    return [
        {
            "entityId": id,
            "entityType": "Product",
            "storeId": "open",
            "storeName": "Open",
            "value": 3.5,
            "reviewCount": 2,
        }
        for id in query["entityIds"]
    ]


@app.get("/summary")
async def summary() -> Response:
    """Return the bytes of a summary."""
    return Response(SUMMARY, media_type="application/json")


@app.get("/unchanged")
async def unchanged() -> Response:
    """Return 304, not modified."""
    return Response(status_code=304)


if __name__ == "__main__":
    port = int(os.environ["PORT"])
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False, loop="uvloop")
