"""The AsyncAPI document of the topics, beside the OpenAPI document of the routes."""

from __future__ import annotations

from fastapi import APIRouter

from api.responses import JsonResponse
from api.services import Injected
from messaging.asyncapi import asyncapi_document

router = APIRouter(tags=["documents"])


@router.get("/asyncapi.json", summary="The AsyncAPI 3 document of the Kafka topics")
async def asyncapi_json(services: Injected) -> JsonResponse:
    """Topics, keys and message schemas."""
    return JsonResponse(asyncapi_document(services.topics, services.version))
