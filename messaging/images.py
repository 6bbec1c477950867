"""Messages about images: uploads that are to be rebuilt, and commands to hide or show one."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from messaging.schemas import ClosedMessage, Id, ImageId, Name, Note, OptionalId, Stores

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32,64}$")]


class ImageUpload(ClosedMessage):
    """An upload that is in the store of images, and is to be rebuilt from its pixels."""

    id: ImageId
    digest: Annotated[Digest, Field(description="Of the content: its name in the store")]
    uploader: Annotated[OptionalId, Field(description="The person; missing: a shop, for its customers")] = None
    exported: Annotated[bool, Field(description="By an import: kept as it is where it is a file of ours")] = False
    command_id: OptionalId = None


class ImageCommand(ClosedMessage):
    """Hide an image of a review, or show it again."""

    action: Literal["hide", "show"]
    image_id: ImageId
    review_id: Id
    moderator: Name | None = None
    reason: Note | None = None
    stores: Stores = None
    command_id: OptionalId = None

    @property
    def is_to_hide(self) -> bool:
        """True if it hides the image."""
        return self.action == "hide"


IMAGE_UPLOAD: Final[TypeAdapter[ImageUpload]] = TypeAdapter(ImageUpload)
IMAGE_COMMAND: Final[TypeAdapter[ImageCommand]] = TypeAdapter(ImageCommand)
