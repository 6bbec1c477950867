"""Build mails from mail commands."""

import re
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes
from email.charset import QP, Charset
from email.header import Header
from email.headerregistry import Address
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from email.policy import compat32
from email.utils import format_datetime
from typing import Final
from uuid import UUID, uuid5

from domain import addresses
from messaging.dead_letters_codes import DeadLetterCode
from messaging.decoding import InvalidMessageError
from messaging.mails import MailCommand, mailbox

_MESSAGE_IDS: Final = UUID("b8f0a0de-7c43-5f0e-9a53-6a1f64a0d6f3")
_POLICY: Final = compat32.clone(linesep="\r\n", cte_type="7bit")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9 '&+_-]{1,60}")
_LONGEST_WORD: Final = 60
_UTF8: Final = Charset("utf-8")
_UTF8.body_encoding = QP


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail as it is sent to the server: the addresses of its envelope, and its content."""

    sender: str
    recipient: str
    content: bytes


def mail_message(command: MailCommand, at: datetime) -> Mail:
    """The mail, as text and HTML, with the date `at`.

    Its Message-ID is derived from the id of the command, so that a server can recognise a repeat. All text is encoded
    here, and the result is parsed again: it must have exactly the headers that were set. Raises InvalidMessageError if
    it has others, or if the command has no sender or an unusable address.
    """
    if command.from_ is None:
        text = "The mail has no sender: set PLAUDIT_SMTP__SENDER, or the e-mail address of the store"
        raise InvalidMessageError(DeadLetterCode.NO_SENDER, text)
    sender, recipient = mailbox("from", command.from_), mailbox("to", command.to)
    body = MIMEMultipart("alternative")
    parts = [_part("plain", command.text), _part("html", command.html)]
    for part in parts:
        body.attach(part)
    headers = {
        "Message-ID": f"<{uuid5(_MESSAGE_IDS, command.id)}@{sender.domain}>",
        "Date": format_datetime(at),
        "From": _mailbox_header("From", sender),
        "To": _mailbox_header("To", recipient),
        "Subject": _encoded("Subject", addresses.one_line(command.subject)),
        "Auto-Submitted": "auto-generated",
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    content = head.encode() + body.as_bytes(policy=_POLICY)
    check_headers(content, [[*headers, *body.keys()], *(part.keys() for part in parts)])
    return Mail(sender.addr_spec, recipient.addr_spec, content)


def _part(kind: str, text: str) -> MIMENonMultipart:
    part = MIMENonMultipart("text", kind)
    part.set_payload(text, _UTF8)
    return part


def check_headers(content: bytes, expected: list[list[str]]) -> None:
    """Raises InvalidMessageError unless a message and its parts have these headers, each in its order."""
    found = list(message_from_bytes(content).walk())
    if [part.keys() for part in found] != expected or any(part.defects for part in found):
        text = "The mail can't be written: one of its texts would be read as additional headers"
        raise InvalidMessageError(DeadLetterCode.INVALID_MAIL, text)


def _mailbox_header(header: str, address: Address) -> str:
    name = address.display_name
    if not name:
        return address.addr_spec
    return f"{name if _PLAIN_NAME.fullmatch(name) else _encoded_words(header, name)} <{address.addr_spec}>"


def _encoded(header: str, text: str) -> str:
    """Text for a header: as encoded words (RFC 2047), unless it is ASCII that can't be mistaken for one and whose words
    are short enough for the lines of a header."""
    if text.isascii() and "=?" not in text and max(map(len, text.split(" "))) <= _LONGEST_WORD:
        return Header(text, "us-ascii", header_name=header).encode(linesep="\r\n")
    return _encoded_words(header, text)


def _encoded_words(header: str, text: str) -> str:
    return Header(text, _UTF8, header_name=header).encode(linesep="\r\n")
