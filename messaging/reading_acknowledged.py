"""Reading of commands that an earlier version acknowledged although this version refuses their ids."""

from contextlib import suppress
from typing import Any, Final

from messaging.reading import Read, Reader, T
from messaging.reading_errors import InvalidContentError

_UNADDRESSABLE: Final = "unaddressable"
"""The code of the error for an id that no address can name."""


class CommandReader(Reader[T]):
    """Accepts such ids in messages with a command id: the client of an acknowledged command waits for its outcome.

    Our API, which gives commands their ids, refuses such ids before it publishes anything; only an earlier version has
    published them.
    """

    def read(self, value: bytes) -> Read[T]:
        """The content of a value. Raises InvalidContentError."""
        try:
            return super().read(value)
        except InvalidContentError as error:
            if any(each.code == _UNADDRESSABLE for each in error.errors):
                with suppress(InvalidContentError):
                    # Any context stands for a value that an earlier version has accepted.
                    found = self.read_slowly(value, context="acknowledged")
                    if all(each.command_id for each in _messages(found.content)):
                        return found
            raise


def _messages(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [content]
