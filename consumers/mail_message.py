"""From a mail command to the mail as it is sent."""

from __future__ import annotations

from datetime import datetime
from email.errors import NonASCIILocalPartDefect
from email.headerregistry import Address, HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final
from uuid import UUID, uuid5

from messaging.decoding import InvalidMessageError
from messaging.mails import MAIL_COMMAND, MailCommand

_MESSAGE_IDS: Final = UUID("b8f0a0de-7c43-5f0e-9a53-6a1f64a0d6f3")
_HEADERS: Final = HeaderRegistry()
_POLICY: Final = SMTP.clone(cte_type="7bit")
_LONGEST_ADDRESS: Final = 320
_LONGEST_DOMAIN: Final = 255


def mail_command(value: bytes) -> MailCommand:
    """The command in a record. Raises ValidationError, or InvalidMessageError for an address that can't be one."""
    command = MAIL_COMMAND.validate_json(value)
    mailbox("to", command.to)
    mailbox("from", command.from_)
    return command


def mailbox(field: str, text: str) -> Address:
    """The one address in a text, with or without a name: `Anna Berg <anna@example.com>`.

    The domain is in ASCII. Raises InvalidMessageError, which names the field and not the address.
    """
    error = InvalidMessageError("invalid-address", f"`{field}` is not one mail address")
    if len(text) > 2 * _LONGEST_ADDRESS or any(ord(character) < 32 for character in text):
        raise error
    try:
        header: Any = _HEADERS("To", text)
        (group,) = header.groups
        (address,) = group.addresses
        domain = address.domain.encode("idna").decode()
    except (ValueError, IndexError) as failure:  # IndexError is how the parser takes "anna@"
        raise error from failure
    wrong = [defect for defect in header.defects if not isinstance(defect, NonASCIILocalPartDefect)]
    if wrong or group.display_name is not None or not address.username or not 0 < len(domain) <= _LONGEST_DOMAIN:
        raise error
    return Address(" ".join(address.display_name.split()), address.username, domain)


def mail_message(command: MailCommand, at: datetime) -> EmailMessage:
    """The mail, text and HTML. `at` is its date.

    Its Message-ID follows from the id of the command, so that a server may recognise a repeat. Raises
    InvalidMessageError.
    """
    sender, recipient = mailbox("from", command.from_), mailbox("to", command.to)
    message = EmailMessage(_POLICY)
    message["Message-ID"] = f"<{uuid5(_MESSAGE_IDS, command.id)}@{sender.domain}>"
    message["Date"] = at
    message["From"] = sender
    message["To"] = recipient
    # A line break would end the header, and start another one.
    message["Subject"] = " ".join("".join(c if c.isprintable() else " " for c in command.subject).split())
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(command.text)
    message.add_alternative(command.html, subtype="html")
    return message
