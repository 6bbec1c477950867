"""CloudEvents 1.0 in binary mode: the value is the data, and the headers are the attributes.

https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/kafka-protocol-binding.md
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from time import time_ns
from typing import Final

import orjson
from uuid_utils import uuid7

from domain.commands import CommandMark
from domain.delivery import OutgoingMessage
from domain.timestamps import from_milliseconds, moment_in, timestamp
from messaging.decoding import MARK_HEADER, Header, header_in
from messaging.tracing import trace_headers

COMMAND_HEADER: Final = "ce_commandid"
"""An extension attribute: the id of the HTTP command that a message belongs to. It is only for logs."""

_TIME_HEADER: Final = "ce_time"
_LONGEST_COMMAND_ID: Final = 128

_SPEC_HEADERS: Final = (("ce_specversion", b"1.0"), ("content-type", b"application/json"))


@dataclass(frozen=True, slots=True)
class Envelope:
    """Wraps the messages of one process, whose name is their source."""

    source: str

    def wrap(
        self, topic: str, key: str, kind: str, data: object, *, id: str | None = None, cause: str = ""
    ) -> OutgoingMessage:
        """A message of ours. `kind` is the CloudEvents type without its prefix; `id` is generated unless given.

        `cause` is the trace context that it belongs to, if that differs from the one in which it is published.
        """
        headers = (
            *_SPEC_HEADERS,
            ("ce_id", (id or str(uuid7())).encode()),
            ("ce_type", f"plaudit.{kind}".encode()),
            ("ce_source", self.source.encode()),
            (_TIME_HEADER, _time_header(time_ns() // 1_000_000)),
            *trace_headers(cause),
        )
        return OutgoingMessage(topic, key.encode(), orjson.dumps(data), headers)


OF_WORKERS: Final = Envelope("/plaudit/worker")


@lru_cache(maxsize=1)
def _time_header(milliseconds: int) -> bytes:
    """The time in the format of the header, computed once for all messages of a millisecond."""
    return timestamp(from_milliseconds(milliseconds)).encode()


def of_command(message: OutgoingMessage, command_id: str, mark: CommandMark | None = None) -> OutgoingMessage:
    """The message with headers for the id of its command and, if given, its mark."""
    headers = [*message.headers, (COMMAND_HEADER, command_id.encode())]
    if mark is not None:
        headers.append((MARK_HEADER, str(mark).encode()))
    return OutgoingMessage(message.topic, message.key, message.value, headers)


def wrapped_at(headers: Iterable[Header]) -> datetime | None:
    """The time at which a message was created, before it may have waited in an outbox; None without a valid one."""
    with suppress(ValueError, OverflowError):
        return moment_in(header_in(headers, _TIME_HEADER).decode(errors="replace"))
    return None


def command_id_in(headers: Iterable[Header]) -> str | None:
    """The id of the command that a message belongs to; None without one."""
    return header_in(headers, COMMAND_HEADER)[:_LONGEST_COMMAND_ID].decode(errors="replace") or None


def cloud_event_identity(headers: Iterable[Header]) -> str | None:
    """The identity of a CloudEvent: its source and id. None if the sender gave no id, or an empty one.

    Bytes that aren't UTF-8 are escaped, so that different ids stay different.
    """
    found = dict(headers)
    id = found.get("ce_id")
    return ((found.get("ce_source") or b"") + b"\n" + id).decode(errors="backslashreplace") if id else None
