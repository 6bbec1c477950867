"""Names of objects: submissions never wait for them, and they are added once they are available."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.facade import REVIEWS, Facade, body_of, facade_of, new_id, submission
from tests.support.messages import message
from tests.support.name_server import NameServer, running_name_server
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

CATALOG = """
from pathlib import Path

def names(ids):
    if not Path("open").exists():
        raise OSError("closed")
    return {id: {"name": "Name of " + id, "imageUrl": "/" + id} for id in ids}
"""


def unnamed(entity_type: str, entity_id: str, **fields: Any) -> Json:
    return {**submission(entity_id, **fields), "EntityType": entity_type, "EntityName": None}


@pytest.fixture(scope="module")
async def names() -> AsyncIterator[NameServer]:
    async with running_name_server() as names:
        yield names


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the service runs, and from which it imports modules."""
    folder = tmp_path_factory.mktemp("service_with_types")
    (folder / "catalog.py").write_text(CATALOG)
    return folder


@pytest.fixture(scope="module")
async def service(servers: Servers, folder: Path, names: NameServer) -> AsyncIterator[Service]:
    """A service with object types whose names come from HTTP and from a Python function."""
    paths = {"name": "product.title", "image": "product.images.0.url"}
    template = {**paths, "url": f"{names.address}/products/{{id}}", "timeout": 0.5}
    types = [
        {"entityType": "Product", "getEntity": template, "knownChildrenTypes": ["Variation"]},
        {"entityType": "Vendor", "getEntity": "catalog:names"},
        {"entityType": "Brand", "getEntity": {**template, "timeout": 60}},
    ]
    async with running_service(servers, folder, PLAUDIT_ENTITY_TYPES=json.dumps(types)) as service:
        yield service


async def names_of(facade: Facade, *ids: str) -> dict[str, str | None]:
    """Return the names in the listed reviews, by review id."""
    page = await facade.page(entityIds=list(ids), take=1_000)
    return {row["id"]: row["entityName"] for row in page["results"]}


async def get_object(http: httpx.AsyncClient, entity_type: str, id: str) -> httpx.Response:
    """Return the response about an object, requested again if its resolver exceeded its timeout of half a second."""
    return await eventually(
        partial(http.get, f"/api/entityTypes/{entity_type}/{id}"), lambda answer: answer.status_code != 503
    )


@pytest.mark.long
async def test_names_are_filled_in_once_available(service: Service, folder: Path, names: NameServer) -> None:
    names.mood = "hangs"
    async with facade_of(service) as facade:
        http = facade.http
        product, deleted, vendor, gone = (new_id() for _ in range(4))

        # While one resolver hangs and the other fails, submissions by HTTP and Kafka are stored.
        own, twin = await facade.submit(submission(product), unnamed("Product", product))
        (doomed,) = await facade.submit(unnamed("Product", deleted))
        (variation,) = await facade.submit(unnamed("Variation", product))
        (of_vendor,) = await facade.submit(unnamed("Vendor", vendor))
        await eventually(lambda: _asked(names))
        late = unnamed("Product", product, id=new_id("review"))
        await service.publish("review-submissions", message([late], product))
        await eventually(lambda: names_of(facade, product), lambda found: late["id"] in found)
        assert set((await names_of(facade, deleted, vendor)).values()) == {None}
        response = await http.get(f"/api/entityTypes/Product/{product}")
        assert response.status_code == 503
        assert response.headers["retry-after"]

        # A review deleted in the meantime stays deleted, an approved one stays approved.
        assert await facade.moderate("delete", doomed) == ["applied"]
        assert await facade.moderate("approve", twin) == ["applied"]

        # The request for a name is stored in the review: another worker fulfils it.
        assert await service.stop("worker") == 0
        names.mood = "answers"
        names.unknown = {gone}
        (folder / "open").touch()
        service.start("worker")
        await service.until_ready()
        name = f"Name of {product}"
        expected = {own: f"Camera {product}", twin: name, late["id"]: name, variation: None}
        await eventually(lambda: names_of(facade, product), lambda found: found == expected)
        await eventually(lambda: names_of(facade, vendor), lambda found: found == {of_vendor: f"Name of {vendor}"})
        assert (await http.get(f"{REVIEWS}/{doomed}")).status_code == 404
        assert (await facade.review(twin))["reviewStatus"] == "Approved"
        async with service.mongo() as database:
            assert await database.reviews.count_documents({"nameWanted": {"$exists": True}}) == 0

        # From here on the name is known at once; an unknown id delays nobody.
        (known,) = await facade.submit(unnamed("Product", product))
        assert (await names_of(facade, product))[known] == name
        (unknown,) = await facade.submit(unnamed("Product", gone))
        await eventually(lambda: _asked(names, gone))
        (other,) = await facade.submit(unnamed("Product", f"{product}/2"))
        await eventually(lambda: names_of(facade, f"{product}/2"), lambda found: bool(found[other]))
        assert await names_of(facade, gone) == {unknown: None}

        # A search for a type includes its children, a search for a child doesn't include the parent.
        listed = await facade.page(entityType="Product", entityIds=[product])
        assert {row["id"] for row in listed["results"]} == {own, twin, late["id"], known, variation}
        listed = await facade.page(entityType="Variation", entityIds=[product])
        assert [row["id"] for row in listed["results"]] == [variation]

        # The portal reads the types, and one object at a time.
        types = {type["entityType"]: type for type in await facade.get("/api/entityTypes")}
        assert types["Product"]["hasEntityResolver"]
        assert types["Product"]["icon"]
        for type, id, image in (("Product", product, f"/{product}.png"), ("Vendor", "a/b", "/a/b")):
            entity = body_of(await get_object(http, type, id), dict)
            assert entity == {"entityType": type, "id": id, "name": f"Name of {id}", "imageUrl": image}
        assert (await get_object(http, "Product", gone)).status_code == 404

        for process in ("api", "worker"):
            assert not any(id in service.log(process) for id in (product, deleted, vendor, gone))


@pytest.mark.slow
async def test_no_submission_waits_for_a_resolver(service: Service, names: NameServer) -> None:
    names.mood = "hangs"
    ids = [new_id() for _ in range(1_000)]
    reviews = [unnamed("Brand", id, id=id) for id in ids]
    stored = {"_id": {"$in": ids}}
    async with service.mongo() as database:

        async def store(some: list[Json]) -> None:
            await service.publish("review-submissions", *(message(r, r["id"]) for r in some))

        await store(reviews[:1])
        await eventually(lambda: _asked(names, ids[0]))
        # Long before the first request times out; each review is about a different object.
        await store(reviews[1:])
        await eventually(lambda: database.reviews.count_documents(stored), lambda n: n == len(ids))
        assert names.hanging
        names.mood = "answers"
        names.let_go()
        named = {**stored, "entityName": {"$type": "string"}}
        await eventually(lambda: database.reviews.count_documents(named), lambda n: n == len(ids))


async def test_invalid_registration_exits_with_code_2(servers: Servers, tmp_path: Path) -> None:
    service = Service(servers, tmp_path, environment={"PLAUDIT_ENTITY_TYPES": '[{"entityType": "A", "getEntity": 1}]'})
    for ended in await asyncio.gather(*(service.run(command, code=2) for command in ("worker", "up"))):
        assert "PLAUDIT_ENTITY_TYPES: /0/getEntity" in ended.stderr
        assert "Traceback" not in ended.stderr


def _asked(names: NameServer, id: str = "") -> bool:
    return any(target.endswith(id) for target in names.asked)
