"""The endpoints of object types, which need neither Kafka nor MongoDB."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from unittest.mock import Mock, call

import httpx
import pytest

from api import entity_types
from api.reviews.search import ReviewSearchRequest
from domain.entity_types import PRODUCT, EntityType, EntityTypes, ResolvedEntity, ResolverError
from tests.support.app import client_without_servers


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
    async with client_without_servers(entity_types=TYPES) as http:
        yield http


async def test_list_of_types(http: httpx.AsyncClient) -> None:
    product, vendor = (await http.get("/api/entityTypes")).json()
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
async def test_resolved_object(http: httpx.AsyncClient, path: str, id: str) -> None:
    response = await http.get(f"/api/entityTypes/Vendor/{path}")
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
    monkeypatch.setattr(entity_types, "RESOLVE_S", 0.05 if path.endswith("hangs") else 60)
    response = await http.get(f"/api/entityTypes{path}")
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert ("retry-after" in response.headers) == (status == 503)
    assert "secret" not in response.text


async def test_resolver_timeout(http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    timeout = Mock(wraps=asyncio.timeout)
    monkeypatch.setattr(asyncio, "timeout", timeout)
    await http.get("/api/entityTypes/Vendor/1")
    assert call(5.0) in timeout.mock_calls


def test_search_for_a_type_includes_its_children() -> None:
    assert ReviewSearchRequest(entity_type="Vendor").criteria(TYPES).entity_types == ["Vendor", "Branch"]
    assert ReviewSearchRequest(entity_type="Branch").criteria(TYPES).entity_types == ["Branch"]
    assert ReviewSearchRequest().criteria(TYPES).entity_types is None
