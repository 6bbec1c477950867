"""Endpoints of object types, for an administration portal."""

import asyncio
from typing import Annotated, Final

import structlog
from fastapi import Path
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from api.auth.permissions import ReviewReader
from api.services import Injected
from api.web.openapi import problems
from api.web.problems import ProblemError, ProblemKind, unavailable
from api.web.responses import JsonResponse, Row
from api.web.routes import routes
from domain.entity_types import RESOLVE_S, ResolverError
from messaging.schemas import Id

log = structlog.get_logger()


class ShownBlade(Row):
    """The portal's view of an object."""

    controller: str
    template: str


class ShownEntityType(Row):
    """A registered object type."""

    entity_type: str
    description: str
    full_type_name: str
    icon: str
    entity_id_field_name: str
    detail_blade: ShownBlade | None
    known_children_types: list[str]
    has_entity_resolver: Annotated[bool, BeforeValidator(callable), Field(validation_alias="get_entity")]


class ShownEntity(TypedDict):
    """The name of an object, and the URL of its picture."""

    entityType: str
    id: str
    name: str
    imageUrl: str | None


router: Final = routes("/api/entityTypes", "Object types")


@router.get("", response_model=list[ShownEntityType])
async def list_entity_types(_: ReviewReader, services: Injected) -> JsonResponse:
    """All registered object types. Objects of other types can be reviewed, too."""
    return JsonResponse([ShownEntityType.of(type) for type in services.entity_types])


@router.get("/{entityType}/{id:path}", response_model=ShownEntity, responses=problems(ProblemKind.NOT_FOUND))
async def read_entity(
    _: ReviewReader,
    entity_type: Annotated[Id, Path(alias="entityType")],
    id: Annotated[Id, Path()],
    services: Injected,
) -> JsonResponse:
    """The name and picture of an object, from the resolver of its type."""
    if services.entity_types.get(entity_type) is None:
        raise ProblemError(ProblemKind.NOT_FOUND, "This object type isn't registered.")
    resolver = services.entity_types.resolver(entity_type)
    if resolver is None:
        raise ProblemError(ProblemKind.NOT_FOUND, "This object type has no resolver: register it with `getEntity`.")
    try:
        async with asyncio.timeout(RESOLVE_S):
            found = (await resolver([id])).get(id)
    except Exception as error:
        reason = str(error) if isinstance(error, ResolverError) else type(error).__name__
        log.warning("names can't be resolved", entity_type=entity_type, error=reason)
        raise unavailable("The resolver of this object type") from error
    if found is None:
        raise ProblemError(ProblemKind.NOT_FOUND, "The resolver of this object type knows no object with this id.")
    return JsonResponse({"entityType": entity_type, "id": id, "name": found.name, "imageUrl": found.image_url})
