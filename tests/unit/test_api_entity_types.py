"""The endpoints of object types, which need neither Kafka nor MongoDB."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping

import httpx
import pytest

from api import entity_types
from api.app import create_app
from api.reviews.search import ReviewSearchRequest
from api.services import Services
from domain.entity_types import PRODUCT, EntityType, EntityTypes, ResolvedEntity, ResolverError
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.topics import TopicNames
from storage.database import connect

NOWHERE = "127.0.0.1:1"


async def names(ids: Collection[str], /) -> Mapping[str, ResolvedEntity]:
    if "hangs" in ids:
        await asyncio.Event().wait()
    if "fails" in ids:
        raise ResolverError("no answer")
    if "breaks" in ids:
        raise KeyError("secret")
    return {id: ResolvedEntity(f"Name of {id}", f"/{id}.png") for id in ids if id != "unknown"}


TYPES = EntityTypes([PRODUCT, EntityType("Vendor", get_entity=names, known_children_types=("Branch",))])


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    client, database = connect(f"mongodb://{NOWHERE}", "nothing", timeout=0.1)
    publisher = Publisher(KafkaConnection(NOWHERE), timeout=0.5)
    services = Services(database, publisher, TopicNames("test."), version="1.2.3", entity_types=TYPES)
    transport = httpx.ASGITransport(create_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://test/api") as http:
        yield http
    await publisher.stop()
    await client.close()


async def test_all_types(http: httpx.AsyncClient) -> None:
    product, vendor = (await http.get("/entityTypes")).json()
    assert product == {
        "entityType": "Product",
        "description": PRODUCT.description,
        "fullTypeName": PRODUCT.full_type_name,
        "icon": PRODUCT.icon,
        "entityIdFieldName": "itemId",
        "detailBlade": {
            "controller": "virtoCommerce.catalogModule.itemDetailController",
            "template": "Modules/$(VirtoCommerce.Catalog)/Scripts/blades/item-detail.tpl.html",
        },
        "knownChildrenTypes": [],
        "hasEntityResolver": False,
    }
    assert (vendor["detailBlade"], vendor["knownChildrenTypes"]) == (None, ["Branch"])
    assert vendor["hasEntityResolver"] is True


@pytest.mark.parametrize(("path", "id"), [("1", "1"), ("a/b/c", "a/b/c"), ("a%2Fb", "a/b"), ("%C3%BC%20x", "ü x")])
async def test_one_object(http: httpx.AsyncClient, path: str, id: str) -> None:
    response = await http.get(f"/entityTypes/Vendor/{path}")
    assert response.status_code == 200
    assert response.json() == {
        "entityType": "Vendor",
        "id": id,
        "name": f"Name of {id}",
        "imageUrl": f"/{id}.png",
    }


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/Nobody/1", 404),
        ("/Product/1", 404),
        ("/Vendor/unknown", 404),
        ("/Vendor", 404),
        ("/Vendor/%20", 422),
        ("/Vendor/%00", 422),
        (f"/Vendor/{'x' * 129}", 422),
        ("/Vendor/hangs", 503),
        ("/Vendor/fails", 503),
        ("/Vendor/breaks", 503),
    ],
)
async def test_problems(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str, status: int) -> None:
    monkeypatch.setattr(entity_types, "RESOLVE_SECONDS", 0.05)
    response = await http.get(f"/entityTypes{path}")
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert ("retry-after" in response.headers) == (status == 503)
    assert "secret" not in response.text


def test_a_search_for_a_type_includes_its_children() -> None:
    assert ReviewSearchRequest(entity_type="Vendor").criteria(TYPES).entity_types == ["Vendor", "Branch"]
    assert ReviewSearchRequest(entity_type="Branch").criteria(TYPES).entity_types == ["Branch"]
    assert ReviewSearchRequest().criteria(TYPES).entity_types is None
