"""Ports that stay reserved while a server is down, and stay the same from run to run."""

import socket
from pathlib import Path
from typing import Self

HOST = "127.0.0.1"


class ReservedPort:
    """A local port that no other process gets, held by a socket that is bound and never listens.

    A server that sets SO_REUSEADDR (mongod, the JVM and Tansu do) can still listen on it.
    """

    def __init__(self, number: int) -> None:
        """Reserve a port; 0 for any free one. Raises OSError if it is taken."""
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, number))
        except OSError:
            self._socket.close()
            raise
        self.number: int = self._socket.getsockname()[1]

    @classmethod
    def as_before(cls, memory: Path) -> Self:
        """Reserve the port stored in the file `memory` if it is free, else any, and store it."""
        try:
            port = cls(int(memory.read_text()))
        except (OSError, ValueError, OverflowError):  # no port is stored, or another process has it
            port = cls(0)
        memory.write_text(f"{port.number}\n")
        return port

    def release(self) -> None:
        """Release the port."""
        self._socket.close()
