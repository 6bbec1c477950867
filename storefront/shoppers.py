"""Visitors of shops' pages: the store, the object, and the check that the page may write."""

from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Path, Request
from pydantic import TypeAdapter, ValidationError

from api.auth.permissions import check_understood, client_address, forbidden
from api.services import Services, services_of
from api.web.hygiene import authority
from api.web.limits import network_of
from api.web.problems import invalid, item_error, not_found
from domain.objects import ObjectKey
from domain.permissions import Caller, Permission
from domain.ratings import Entity
from domain.stores import Store
from messaging.reading_errors import input_error
from messaging.schemas import Id
from storefront.middleware import allow

_WRITES: Final = frozenset(
    {Permission.CREATE_REVIEWS, Permission.VOTE_ON_REVIEWS, Permission.REPORT_REVIEWS, Permission.READ_REVIEWS}
)
_FOREIGN: Final = "Pages of this origin may not write to the store: add it to the store's `storefrontOrigins`."

StorePath = Annotated[Id, Path(alias="storeId")]
TypePath = Annotated[Id, Path(alias="entityType")]
EntityPath = Annotated[Id, Path(alias="entityId")]
_PATH: Final = TypeAdapter(dict[str, Id])


@dataclass(frozen=True, slots=True)
class Shopper:
    """A visitor of a page about an object in a store."""

    store: Store
    entity: Entity
    address: str

    @property
    def object_key(self) -> ObjectKey:
        """The object and the store."""
        return ObjectKey(self.entity, self.store.id)

    @property
    def caller(self) -> Caller:
        """The visitor as a caller of the facade's commands: anonymous, and bound to this store."""
        return Caller(None, _WRITES, frozenset({self.store.id}))


async def visit(request: Request) -> None:
    """Count a request, and check its path, its query, and that a `GET` has no body. Raises ProblemError (422, 429).
    FastAPI checks a path, too, but only after it has resolved independent dependencies, such as body and command."""
    request.app.state.rate_limit.take(client_address(request))
    try:
        _PATH.validate_python(request.path_params)
    except ValidationError as error:
        raise invalid([item_error(input_error(each)) for each in error.errors()]) from None
    await check_understood(request)


async def visited_store(request: Request, _: Annotated[None, Depends(visit)], store_id: StorePath) -> Store:
    """The store of the path. Raises ProblemError: 404, 422, 429."""
    services = await services_of(request)
    store = await store_of(services, store_id)
    allow(request, store.settings.storefront_origins)
    return store


async def store_of(services: Services, store_id: str) -> Store:
    """The store with this id. Raises ProblemError (404)."""
    store = (await services.lookups.stores_for_rules([store_id])).get(store_id)
    if store is None:
        raise not_found("store")
    return store


async def reader(
    request: Request, store: Annotated[Store, Depends(visited_store)], entity_type: TypePath, entity_id: EntityPath
) -> Shopper:
    """A visitor who reads."""
    return Shopper(store, Entity(entity_type, entity_id), network_of(request))


async def writer(request: Request, shopper: Annotated[Shopper, Depends(reader)]) -> Shopper:
    """A visitor who writes: by a page of ours or of the store's origins, or by a server. Raises ProblemError (403)."""
    request.state.caller = shopper.caller
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site")
    is_ours = origin is not None and authority(origin) == request.headers.get("host", "").lower()
    if origin is None and site in (None, "same-origin", "none"):
        return shopper
    if is_ours or origin in shopper.store.settings.storefront_origins:
        return shopper
    raise forbidden(_FOREIGN)


Visited = Annotated[Store, Depends(visited_store)]
"""The store as a parameter of a public endpoint."""
Reading = Annotated[Shopper, Depends(reader)]
Writing = Annotated[Shopper, Depends(writer)]
