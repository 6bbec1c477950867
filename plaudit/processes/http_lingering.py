"""Connections that end behind an answer which came before the end of the request's body."""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from plaudit.processes.uvicorn_internals import ReadingControl

LINGER_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a body that are thrown away behind its answer: a client that is cut off while it sends never reads it."""


class LingeringProtocol(HttpToolsProtocol):
    """One connection. It is `lingering` from its last answer until the client has stopped to send its body."""

    flow: ReadingControl
    _left_bytes: int | None = None

    @property
    def is_lingering(self) -> bool:
        """The last answer was given, and what still comes is thrown away."""
        return self._left_bytes is not None

    def linger(self) -> None:
        """End our side, and throw away what comes, until the client ends its side, or has sent too much."""
        self._left_bytes = LINGER_BYTES
        self.flow.is_behind = False
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def throw_away(self, data: bytes) -> None:
        """Take data that nobody wants."""
        self._left_bytes = (self._left_bytes or 0) - len(data)
        if self._left_bytes < 0:
            self.transport.close()

    def shutdown(self) -> None:
        """Answer the request in hand, and close."""
        super().shutdown()
        if self.is_lingering:
            self.transport.close()
