"""Images are served only to callers who may see them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock
from uuid import UUID, uuid4, uuid5

import httpx
import pytest

from api.app import create_app
from api.auth.keys_of_issuer import StaticKey
from api.auth.tokens import TokenRules, Tokens
from api.services import Services
from domain.images import ImageState, StoredImage, upload_digest
from domain.ratings import Entity
from domain.reviews import Review, ReviewStatus
from domain.reviews_facts import ReviewImage
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import TopicNames
from storage.database import Database, connect, in_transaction
from storage.images.files import ImageFiles, files_in_memory
from storage.images.mark import ImageStoreMark
from storage.images.repository import ImageRepository
from storage.reviews.repository import ReviewRepository
from tests.support.app import NOWHERE, client_of
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key, pem
from tests.support.service import Servers, Service

ISSUER_OF_ALL = Issuer({"first": ec_key()})
NOW = datetime(2026, 3, 14, tzinfo=UTC)
IMAGE = "0190b8a2-5c1e-7d3a-9b61-2f4d8e0c7a11"
REVIEW = Review("r", Entity("Product", "1"), None, "A", "anna", None, None, "Good", 400, NOW, NOW)


@pytest.fixture
async def database(servers: Servers, tmp_path: Path) -> AsyncIterator[Database]:
    client, database = connect(servers.mongo, Service(servers, tmp_path).database)
    async with client:
        yield database
        await client.drop_database(database.name)


@pytest.fixture
def files() -> ImageFiles:
    return files_in_memory()


@pytest.fixture
async def http(database: Database, files: ImageFiles) -> AsyncIterator[httpx.AsyncClient]:
    rules = TokenRules(ISSUER, AUDIENCE, algorithms=["ES256"])
    publisher = Publisher(KafkaConnection(NOWHERE), timeout=0.1)
    await files.put(IMAGE, [b"large", b"small"])
    services = Services(
        database,
        publisher,
        TopicNames("test."),
        version="1",
        authenticator=Tokens(StaticKey(pem(ISSUER_OF_ALL.keys["first"]), ["ES256"]), rules),
        image_files=files,
    )
    async with client_of(create_app(services)) as http:
        yield http
    await publisher.stop()


async def store(database: Database, status: ReviewStatus, image: ReviewImage, **fields: Any) -> None:
    """Store a review with an image."""
    review = replace(REVIEW, status=status, images=(image,))
    await ReviewRepository(database).insert([review])
    stored = StoredImage(IMAGE, **{"state": ImageState.READY, "at": NOW, "review_id": "r", **fields})
    await in_transaction(database, lambda session: ImageRepository(database).save(stored, session))


async def statuses(http: httpx.AsyncClient) -> list[int]:
    """Return the statuses for an anonymous caller, callers without and with the permission, and callers bound to two
    stores."""
    read = ["customerReviews:read"]
    tokens = [
        None,
        ISSUER_OF_ALL.token(["customerReviews:update", "customerReviews:create"]),
        ISSUER_OF_ALL.token(read),
        ISSUER_OF_ALL.token(read, stores=["A"]),
        ISSUER_OF_ALL.token(read, stores=["B"]),
    ]
    found = []
    for token in tokens:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        known = headers | {"If-None-Match": f'"{IMAGE}-1600"'}
        answers = [await http.get(f"/api/images/{IMAGE}", headers=each) for each in (headers, known)]
        assert answers[1].status_code == (304 if answers[0].status_code == 200 else 404)
        found.append(answers[0].status_code)
    return found


@pytest.mark.parametrize(
    ("status", "is_hidden", "for_all"),
    [
        (ReviewStatus.APPROVED, False, True),
        (ReviewStatus.APPROVED, True, False),
        (ReviewStatus.NEW, False, False),
        (ReviewStatus.REJECTED, False, False),
    ],
)
async def test_image_visibility(
    database: Database, http: httpx.AsyncClient, status: ReviewStatus, is_hidden: bool, for_all: bool
) -> None:
    await store(database, status, ReviewImage(IMAGE, is_hidden=is_hidden))
    assert await statuses(http) == ([200] * 5 if for_all else [404, 404, 200, 200, 404])
    missing = await http.get(f"/api/images/{IMAGE[:-1]}2")
    hidden = await http.get(f"/api/images/{IMAGE}")
    if not for_all:
        assert missing.json() == {**hidden.json(), "instance": missing.json()["instance"]}
        assert dict(missing.headers) == dict(hidden.headers)
    bad = await http.get(f"/api/images/{IMAGE}", headers={"Authorization": "Bearer nonsense"})
    assert bad.status_code == 401


async def test_image_removed_or_of_another_review_is_not_found(database: Database, http: httpx.AsyncClient) -> None:
    await store(database, ReviewStatus.APPROVED, ReviewImage("another"))
    assert await statuses(http) == [404, 404, 200, 200, 404]
    await in_transaction(database, lambda session: ImageRepository(database).give_up([IMAGE], session))
    assert await statuses(http) == [404] * 5


async def test_upload_refused_for_reused_key_leaves_no_file(http: httpx.AsyncClient, files: ImageFiles) -> None:
    """Nothing would refer to its file, which would stay for weeks."""
    token = ISSUER_OF_ALL.token(["customerReviews:create"])
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream", "Idempotency-Key": "one"}
    mine, other = b"\xff\xd8\xff mine", b"\xff\xd8\xff another"
    # Kafka is unavailable: only this process knows the key.
    assert (await http.post("/api/images", content=mine, headers=headers)).status_code == 503
    refused = await http.post("/api/images", content=other, headers=headers)
    assert (refused.status_code, refused.json()["type"]) == (422, "/problems/idempotency-key-reused")
    id = str(uuid5(UUID(refused.json()["commandId"]), "0"))
    assert await files.upload(id, upload_digest(mine)) == mine
    assert await files.upload(id, upload_digest(other)) is None


async def test_image_in_unmarked_store_is_unavailable(
    database: Database, http: httpx.AsyncClient, files: ImageFiles
) -> None:
    """As with an unmounted volume: clients and caches must not take the image for gone."""
    await ImageStoreMark(database).write(files_in_memory())
    await store(database, ReviewStatus.APPROVED, ReviewImage(IMAGE))
    await files.remove([IMAGE])
    missing = await http.get(f"/api/images/{IMAGE}")
    assert (missing.status_code, missing.json()["detail"][:31]) == (503, "The image store can't be reache")
    await files.mark()
    assert (await http.get(f"/api/images/{IMAGE}")).status_code == 404


async def test_unmarked_store_takes_no_upload(
    database: Database, http: httpx.AsyncClient, files: ImageFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an unmounted volume: the API writes nothing into it, and takes no upload for missing in it. The store is
    not asked for each request."""
    await ImageStoreMark(database).write(files_in_memory())
    token = ISSUER_OF_ALL.token(["customerReviews:create"])
    as_file = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    review = {"EntityId": "1", "EntityType": "Product", "review": "Good", "rating": 4, "images": [str(uuid4())]}

    async def answers() -> list[str]:
        """The details of the problems of an upload and of a review that names an image."""
        upload = await http.post("/api/images", content=b"\xff\xd8\xff a picture", headers=as_file)
        submission = await http.post(
            "/api/customerReviews", json=[review], headers={"Authorization": f"Bearer {token}"}
        )
        return [each.json()["detail"] for each in (upload, submission)]

    assert all(each.startswith("The image store can't be reached") for each in await answers())
    counted = AsyncMock(side_effect=files.is_marked)
    monkeypatch.setattr(files, "is_marked", counted)
    await files.mark()
    for _ in range(2):
        upload, submission = await answers()
        assert upload.startswith("The message broker can't be reached")
        assert "no image with this id" in submission
    assert counted.await_count == 1
