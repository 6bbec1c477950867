"""Lingering close of connections: the response was complete before the body of the request."""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from plaudit.processes.uvicorn_internals import ReadingControl

LINGER_BYTES: Final = 64 * 1024 * 1024
"""Maximum number of body bytes discarded after a response: a client cut off while it sends never reads it."""


class LingeringProtocol(HttpToolsProtocol):
    """One connection. It lingers from its last response until the client stops sending the body."""

    flow: ReadingControl
    _left_bytes: int | None = None

    @property
    def is_lingering(self) -> bool:
        """True after the last response, while further input is discarded."""
        return self._left_bytes is not None

    def linger(self) -> None:
        """Close our side, and discard input until the client closes its side or exceeds LINGER_BYTES."""
        self._left_bytes = LINGER_BYTES
        self.flow.is_behind = False
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def throw_away(self, data: bytes) -> None:
        """Discard input; close the connection beyond LINGER_BYTES."""
        self._left_bytes = (self._left_bytes or 0) - len(data)
        if self._left_bytes < 0:
            self.transport.close()

    def shutdown(self) -> None:
        """Finish the request in progress, and close; a lingering connection closes at once."""
        super().shutdown()
        if self.is_lingering:
            self.transport.close()
