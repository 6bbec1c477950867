"""The facade in the event loop of the test, without Kafka and MongoDB."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter

from api.app import create_app
from api.services import Services
from api.web.bodies import parse_json
from api.web.problems import ProblemError
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import TopicNames
from storage.database import Database, connect
from storage.images.files import files_in_memory

from .facade import problem_of as problem_of
from .service import Json

NOWHERE: Final = "127.0.0.1:1"
TOPICS: Final = TopicNames("test.")
REVIEW: Final[Json] = {"EntityId": "1", "EntityType": "Product", "review": "Good", "rating": 4}


def facade_services(database: Database, publisher: Publisher, topics: TopicNames = TOPICS, **options: Any) -> Services:
    """The services of an application, with images in memory unless `options` of `Services` say otherwise."""
    return Services(database, publisher, topics, **{"version": "1.2.3", "image_files": files_in_memory(), **options})


@asynccontextmanager
async def app_without_servers(*, app: Json | None = None, **services: Any) -> AsyncIterator[FastAPI]:
    """The application. `app` are options of `create_app`, `services` those of `Services`."""
    client, database = connect(f"mongodb://{NOWHERE}", "nothing", timeout=0)
    publisher = Publisher(KafkaConnection(NOWHERE), timeout=0.1)
    yield create_app(facade_services(database, publisher, **services), **(app or {}))
    await publisher.stop()
    await client.close()


@asynccontextmanager
async def client_without_servers(*, app: Json | None = None, **services: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with app_without_servers(app=app, **services) as application, client_of(application) as http:
        yield http


def client_of(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """A client that calls the application without a socket."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://plaudit.test", **options)


def problem_in(codec: TypeAdapter[Any], body: bytes) -> ProblemError:
    """The problem with which a body is refused."""
    with pytest.raises(ProblemError) as refused:
        parse_json(codec, body)
    return refused.value


def places_in(codec: TypeAdapter[Any], body: object) -> list[tuple[str, str]]:
    """Pointer and code of each error of a body that is refused with 422."""
    problem = problem_in(codec, json.dumps(body).encode())
    assert problem.kind.status == 422
    return [(error["pointer"], error["code"]) for error in problem.errors]
