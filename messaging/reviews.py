"""Messages about reviews: submissions, and changes keyed by object."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter, ValidationInfo, field_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticKnownError

from domain.delivery import NEVER_WRITTEN, Written
from domain.images import MAX_IMAGES, images_of_new_review
from domain.ratings import Entity, hundredths
from domain.review_tokens import ReviewToken, verify_proof
from domain.reviews import Content, Review, ReviewIdentity
from domain.reviews_edits import EditRight
from domain.reviews_facts import Facts, Source
from domain.reviews_refusals import Refusal
from messaging.chosen_ids import ChosenId
from messaging.json_values import without_bom
from messaging.moderation import ModerationOfReview
from messaging.reading_acknowledged import CommandReader
from messaging.reviews_state import ShownImage
from messaging.schemas import (
    HIDDEN_INPUT,
    MAX_ITEMS,
    AtMost,
    EntityName,
    Id,
    ImageId,
    Language,
    Message,
    Moment,
    Name,
    OptionalId,
    Rating,
    ReviewText,
    ReviewTokenText,
    Stores,
    Title,
)

T = TypeVar("T")

_UNLESS_EDIT: Final = "except in an edit, which has the `id` of a stored review:"


def _id_of_image(value: object) -> object:
    return value["id"] if isinstance(value, dict) and value.keys() == {"id", "hidden"} else value


NamedImage = Annotated[ImageId, BeforeValidator(_id_of_image, json_schema_input_type=ImageId | ShownImage)]
"""The id of an image, or the image as the row of a review shows it."""


class Editor(Message):
    """The sender of a submission with an id, as the facade knows them. Without a right they may not edit."""

    right: EditRight | None = None
    name: OptionalId = None
    stores: Stores = None


class SubmittedReview(Message):
    """A submitted review. It has no store if `storeId` is empty or missing."""

    id: ChosenId = None
    store_id: OptionalId = None
    user_id: Annotated[OptionalId, Field(description="Empty or missing: anonymous")] = None
    user_name: Name | None = None
    entity_id: Annotated[
        Id, Field(validation_alias=AliasChoices("EntityId", "entityId"), serialization_alias="EntityId")
    ]
    entity_type: Annotated[
        Id, Field(validation_alias=AliasChoices("EntityType", "entityType"), serialization_alias="EntityType")
    ]
    entity_name: Annotated[
        EntityName | None,
        Field(validation_alias=AliasChoices("EntityName", "entityName"), serialization_alias="EntityName"),
    ] = None
    # Before the text and the rating, which an import has to contain.
    source: Annotated[
        Source | None, Field(description="`import`: `writtenDate` is used; any other value is replaced by `kafka`")
    ] = None
    title: Title | None = None
    review: Annotated[
        ReviewText | None,
        Field(validate_default=True, description=f"Required {_UNLESS_EDIT} then its text stays"),
    ] = None
    rating: Annotated[
        Rating | None,
        Field(validate_default=True, description=f"Required {_UNLESS_EDIT} then its rating stays"),
    ] = None
    token: Annotated[
        ReviewTokenText,
        Field(
            repr=False,
            description="Review token from the link in a reminder: proves the purchase and the author; valid once",
        ),
    ] = None
    incentivized: Annotated[bool, Field(description="The author received something in return for the review")] = False
    language: Annotated[
        Language, Field(description="BCP 47; if missing, detected in texts of more than 20 characters")
    ] = None
    written_date: Annotated[
        Moment | None, Field(description="Only for an import: when the review was written; becomes `createdDate`")
    ] = None
    images: Annotated[
        Annotated[tuple[NamedImage, ...], AtMost(MAX_IMAGES)] | None,
        Field(
            description="Ids of uploads, or images as in a response; in an edit: all images that the review keeps or "
            "gets. Missing: no change"
        ),
    ] = None
    pending_images: Annotated[
        Annotated[int, Field(ge=0, le=MAX_IMAGES)] | None,
        Field(description="As in a response; if above 0, an edit keeps the images that are still being rebuilt"),
    ] = None
    hidden_images: SkipJsonSchema[Annotated[tuple[ImageId, ...], AtMost(MAX_IMAGES)] | None] = None
    """For an import: those of `images` that a moderator had hidden at their origin."""
    command_id: Annotated[
        OptionalId, Field(description="If given, the outcome is stored under this id for 24 hours")
    ] = None
    former_id: SkipJsonSchema[OptionalId] = None
    editor: SkipJsonSchema[Editor | None] = None
    via: SkipJsonSchema[Source | None] = None

    @field_validator("review", "rating")
    @classmethod
    def _check_present(cls, value: T | None, info: ValidationInfo) -> T | None:
        """The value. Only an edit, which names its review, may omit it."""
        if value is None and (info.data.get("id") is None or info.data.get("source") is Source.IMPORT):
            raise PydanticKnownError("missing")
        return value

    @property
    def entity(self) -> Entity:
        """The reviewed object."""
        return Entity(self.entity_type, self.entity_id)

    @property
    def identity(self) -> ReviewIdentity:
        """The part that an id stands for."""
        return ReviewIdentity(self.entity, self.store_id, self.user_id)

    @property
    def omitted(self) -> tuple[str, ...]:
        """The names of the fields that it omits, as only an edit may."""
        required = {"review": self.review, "rating": self.rating}
        return tuple(name for name, value in required.items() if value is None)

    @property
    def content(self) -> Content:
        """The part that an edit can change. An import brings images only to new reviews."""
        is_import = self.source is Source.IMPORT
        images = None if self.images is None or is_import else tuple(dict.fromkeys(self.images))
        rating = None if self.rating is None else hundredths(self.rating)
        return Content(self.review, rating, self.title, self.user_name, self.entity_name, images)

    def proof(self, token_keys: Sequence[bytes], at: datetime) -> ReviewToken | Refusal | None:
        """The purchase that its token proves, or the reason why it proves none; None without a token."""
        return verify_proof(self.token, self.identity, token_keys, at) if self.token else None

    def by_author(self, token_keys: Sequence[bytes], at: datetime) -> "SubmittedReview":
        """The review with its author, whom the token names if the review itself doesn't."""
        token = self.proof(token_keys, at) if self.user_id is None else None
        return self.model_copy(update={"user_id": token.customer_id}) if isinstance(token, ReviewToken) else self

    def facts(self, detected_language: str | None = None, *, is_bought: bool = False, is_proven: bool = False) -> Facts:
        """The facts about the review. `via` is set only by our own processes; others can merely declare an import."""
        source = Source.IMPORT if self.source is Source.IMPORT else Source.KAFKA
        is_verified = is_bought or is_proven
        is_language_given = self.language is not None
        language = self.language or detected_language
        return Facts(is_verified, self.incentivized, self.via or source, language, is_proven, is_language_given)

    def accepted(
        self,
        review_id: str,
        at: datetime,
        written: Written = NEVER_WRITTEN,
        facts: Facts | None = None,
        identity: ReviewIdentity | None = None,
    ) -> Review:
        """The review that this submission becomes. An import is as old as it says, but never in the future. `identity`
        is that of the submission, if it is already known. Raises ValueError if the text or the rating is omitted."""
        if self.review is None or self.rating is None:
            raise ValueError(f"A new review needs {' and '.join(self.omitted)}")
        entity, store_id, user_id = identity or self.identity
        is_import = self.source is Source.IMPORT
        is_dated = is_import and self.written_date is not None and self.written_date < at
        # Positional, which takes half the time: a batch has a thousand.
        return Review(
            review_id,
            entity,
            self.entity_name,
            store_id,
            user_id,
            self.user_name,
            self.title,
            self.review,
            hundredths(self.rating),
            self.written_date if is_dated and self.written_date else at,
            at,
            facts=facts or self.facts(),
            images=images_of_new_review(self.images, (self.hidden_images or ()) if is_import else ())
            if self.images
            else (),
            written=written,
            submitted=at if is_dated else None,
        )


class RecountOfEntity(Message):
    """Recount the ratings of one object from its reviews."""

    kind: Literal["recount"] = "recount"
    entity_type: Id
    entity_id: Id


class RecountOfStore(Message):
    """Recount the ratings of all objects in a store; without a store, of all objects."""

    kind: Literal["recount-store"] = "recount-store"
    store_id: OptionalId = None
    command_id: OptionalId = None


ReviewChange = ModerationOfReview | RecountOfEntity | RecountOfStore

ONE_SUBMISSION: TypeAdapter[SubmittedReview] = TypeAdapter(SubmittedReview)
SUBMISSIONS: TypeAdapter[list[SubmittedReview]] = TypeAdapter(
    Annotated[list[SubmittedReview], Field(min_length=1, max_length=MAX_ITEMS)], config=HIDDEN_INPUT
)
REVIEW_CHANGE: TypeAdapter[ReviewChange] = TypeAdapter(
    Annotated[ReviewChange, Field(discriminator="kind")], config=HIDDEN_INPUT
)

READ_ONE, READ_SEVERAL = CommandReader(ONE_SUBMISSION), CommandReader(SUBMISSIONS)


def submissions_in(value: bytes) -> list[SubmittedReview]:
    """The submissions in a record's value: one review, or an array of them. Raises InvalidContentError."""
    if without_bom(value).lstrip()[:1] == b"[":
        return READ_SEVERAL(value)
    return [READ_ONE(value)]
