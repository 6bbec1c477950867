"""Messages about images: uploads to rebuild, and commands to hide or show an image."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field, StringConstraints, TypeAdapter

from domain.commands import CommandMark, mark_from
from domain.delivery import RecordPosition
from domain.timestamps import from_milliseconds
from messaging.decoding import Received
from messaging.schemas import ClosedMessage, Id, ImageId, Name, Note, OptionalId, Stores

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32,64}$")]


class ImageUpload(ClosedMessage):
    """An upload in the image store that is to be rebuilt from its pixels."""

    id: ImageId
    digest: Annotated[Digest, Field(description="Digest of the content, and its name in the image store")]
    uploader: Annotated[
        OptionalId, Field(description="The person who uploaded it; missing: a shop on behalf of its customers")
    ] = None
    exported: Annotated[bool, Field(description="Uploaded by an import: kept unchanged if Plaudit wrote the file")] = (
        False
    )
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
        """True if the command hides the image."""
        return self.action == "hide"


class ReceivedImageCommand(NamedTuple):
    """A command about an image, the position of its record, and the mark of its request."""

    command: ImageCommand
    position: RecordPosition
    mark: CommandMark | None

    @property
    def review_id(self) -> str:
        """The id of the review."""
        return self.command.review_id

    @property
    def target(self) -> tuple[str, str]:
        """The ids of the review and of the image."""
        return self.command.review_id, self.command.image_id

    @property
    def at(self) -> datetime:
        """The time of its record."""
        return from_milliseconds(self.position.timestamp)


IMAGE_UPLOAD: Final[TypeAdapter[ImageUpload]] = TypeAdapter(ImageUpload)
IMAGE_COMMAND: Final[TypeAdapter[ImageCommand]] = TypeAdapter(ImageCommand)

KIND: Final = "image"
"""The kind of commands about images among parked commands."""

_FIELDS: Final = frozenset(field.alias or name for name, field in ImageCommand.model_fields.items())


def image_command_in(received: Received[ImageCommand]) -> ReceivedImageCommand:
    """The command in a record."""
    return ReceivedImageCommand(received.message, received.position, received.mark)


def image_command_value(command: ImageCommand) -> dict[str, Any]:
    """The value of an ImageCommand."""
    return command.model_dump(mode="json", by_alias=True, exclude_none=True)


def parked_image_command(received: ReceivedImageCommand) -> dict[str, Any]:
    """The value for MongoDB: the command and its origin."""
    mark = {"commandMark": str(received.mark)} if received.mark else {}
    return {"kind": KIND, "source": list(received.position), **mark, **image_command_value(received.command)}


def image_command_from(value: Mapping[str, Any]) -> ReceivedImageCommand:
    """The command in a value of `parked_image_command`, as MongoDB returns it."""
    fields = {name: each for name, each in value.items() if name in _FIELDS}
    command = IMAGE_COMMAND.validate_python(fields, strict=False)
    return ReceivedImageCommand(command, RecordPosition(*value["source"]), mark_from(value.get("commandMark")))
