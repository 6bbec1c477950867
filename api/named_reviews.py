"""Bodies that name reviews, and the texts that their sender saw."""

from typing import Annotated, Final

from fastapi import Depends, Query, Request
from pydantic import Field, TypeAdapter

from api import examples
from api.web.bodies import JsonBody, read_json
from api.web.problems import invalid_at
from messaging.json_values import without_bom
from messaging.moderation import text_of_another
from messaging.reading import Read, Reader
from messaging.reading_errors import pointer
from messaging.schemas import MAX_ITEMS, ClosedMessage, StoredId, TextHashes


class NamedReviews(ClosedMessage):
    """Reviews, and the hashes of the texts that their sender saw."""

    ids: Annotated[list[StoredId], Field(max_length=MAX_ITEMS, default_factory=list)]
    text_hashes: TextHashes = None

    def pointer(self, index: int) -> str:
        """The JSON pointer to the id with this index."""
        return f"/ids/{index}"


class ListedReviews(NamedReviews):
    """Reviews that an array of ids names."""

    def pointer(self, index: int) -> str:
        """The JSON pointer to the id with this index."""
        return f"/{index}"


_NAMED: Final[TypeAdapter[NamedReviews]] = TypeAdapter(NamedReviews)
_IDS: Final[TypeAdapter[list[str]]] = TypeAdapter(Annotated[list[StoredId], Field(min_length=1, max_length=MAX_ITEMS)])


class NamedReviewsBody(JsonBody[NamedReviews]):
    """A dependency that reads an array of ids, or an object with ids and hashes of texts."""

    def __init__(self) -> None:
        super().__init__(_NAMED, {"A text of one review": examples.NAMED_REVIEWS})
        content = self.openapi["requestBody"]["content"]["application/json"]
        name = NamedReviews.__name__
        schemas = [_IDS.json_schema(), {"$ref": f"#/components/schemas/{name}"}]
        content["schema"] = {"anyOf": schemas, "$defs": {name: content["schema"]}}
        content["examples"] = {"One review": {"value": examples.REVIEW_IDS}, **content["examples"]}
        self._ids = Reader(_IDS)

    async def read(self, body: bytes) -> Read[NamedReviews]:
        """The reviews that the body names, at least one. Raises ProblemError."""
        if without_bom(body).lstrip()[:1] != b"{":
            ids, _ = await read_json(self._ids, body)
            return Read(ListedReviews(ids=ids))
        named, _ = await super().read(body)
        return Read(_checked(named))


REVIEWS: Final = NamedReviewsBody()
DELETED: Final = JsonBody(_NAMED, {"One review": examples.DELETION}, required=False)


async def reviews_to_delete(
    request: Request,
    ids: Annotated[list[StoredId], Query(max_length=MAX_ITEMS, description="Instead of a body")] = [],  # noqa: B006
) -> NamedReviews:
    """The reviews that the body and the query name. Raises ProblemError if there are none, or too many."""
    if ids and request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return NamedReviews(ids=ids)
    given = await DELETED(request) or NamedReviews()
    return _checked(given.model_copy(update={"ids": [*given.ids, *ids]}))


def _checked(named: NamedReviews) -> NamedReviews:
    """The same reviews. Raises ProblemError if there are none, too many, or a hash is of a review that isn't among
    them."""
    if not 1 <= len(named.ids) <= MAX_ITEMS:
        raise invalid_at("/ids", "too-long" if named.ids else "missing", f"Send 1 to {MAX_ITEMS} ids")
    if stray_id := text_of_another(named.ids, named.text_hashes):
        raise invalid_at(pointer(("textHashes", stray_id)), "other-review", "This review is not in `ids`")
    return named


NamedOnes = Annotated[NamedReviews, Depends(REVIEWS)]
DeletedOnes = Annotated[NamedReviews, Depends(reviews_to_delete)]
