"""Mail commands, for the mailer or another consumer of the topic."""

from email.headerregistry import Address
from typing import Annotated, Final

from pydantic import AfterValidator, Field, TypeAdapter

from domain import addresses
from domain.delivery import OutgoingMessage
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import InvalidMessageError
from messaging.envelope import Envelope
from messaging.reading import Reader
from messaging.schemas import Id, Message, NotBlank
from messaging.topics import Topic, TopicNames


class MailItem(Message):
    """A product that the mail concerns."""

    product_id: str
    name: str | None = None


class MailCommand(Message):
    """A mail to send, once per id, with the order and the products that it concerns."""

    id: Annotated[Id, Field(description="Id of the mail; a repeat has the same one")]
    template: str
    to: Annotated[str, NotBlank]
    from_: Annotated[
        Annotated[str, NotBlank] | None,
        Field(alias="from", description="Missing: the address of the store, or else of the mailer"),
    ] = None
    subject: str
    text: str
    html: str
    language_code: str | None = None
    store_id: str | None = None
    order_id: str | None = None
    order_number: str | None = None
    customer_id: str | None = None
    items: Annotated[tuple[MailItem, ...] | None, AfterValidator(lambda items: items or ())] = ()


MAIL_KIND: Final = "mail.send"
MAIL_COMMAND: TypeAdapter[MailCommand] = TypeAdapter(MailCommand)
READER: Final = Reader(MAIL_COMMAND)


def mail_command_message(topics: TopicNames, envelope: Envelope, command: MailCommand) -> OutgoingMessage:
    """The message for a mail, keyed by its customer; a repeat has the same id."""
    value = command.model_dump(mode="json", by_alias=True)
    topic, key = topics.name(Topic.MAIL_COMMANDS), command.customer_id or command.id
    return envelope.wrap(topic, key, MAIL_KIND, value, id=command.id)


def mail_command(value: bytes) -> MailCommand:
    """The command in a record. Raises InvalidContentError, or InvalidMessageError for an invalid address."""
    command = READER(value)
    mailbox("to", command.to)
    if command.from_ is not None:
        mailbox("from", command.from_)
    return command


def mailbox(field: str, text: str) -> Address:
    """The single address in a text, with or without a name: `Anna Berg <anna@example.com>`.

    Its domain is in ASCII. Raises InvalidMessageError, which names the field but not the address.
    """
    try:
        return addresses.mailbox(text)
    except addresses.InvalidAddressError as error:
        raise InvalidMessageError(DeadLetterCode.INVALID_ADDRESS, f"`{field}` is not one mail address") from error
