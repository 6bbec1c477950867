"""A TCP proxy in front of each server, which can delay, hold and reset connections. It runs as its own process.

At its start it prints a JSON object with the listening port of each link. Each line on its standard input is an order,
`<link> <mode> [<seconds>]`, which it confirms with a line.
"""

import asyncio
import json
import random
import socket
import struct
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import uvloop

from tests.chaos.output import say

HOST = "127.0.0.1"
CHUNK = 256 * 1024
NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends a reset."""


@dataclass
class Link:
    """Forwards one port to a server: immediately ("pass"), late ("delay"), once the link passes again ("hold"), or
    never, resetting its connections ("reset")."""

    target: int
    mode: str = "pass"
    delay_s: float = 0.0
    passing: asyncio.Event = field(default_factory=asyncio.Event)
    connections: set[asyncio.StreamWriter] = field(default_factory=set)

    def order(self, mode: str, delay_s: float) -> None:
        """Change the mode."""
        self.mode, self.delay_s = mode, delay_s
        if mode == "hold":
            self.passing.clear()
        else:
            self.passing.set()
        if mode == "reset":
            for writer in list(self.connections):
                reset(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection."""
        try:
            await self.passing.wait()
            if self.mode == "reset":
                reset(writer)
                return
            server_reader, server_writer = await asyncio.open_connection(HOST, self.target)
        except OSError:
            reset(writer)
            return
        self.connections |= {writer, server_writer}
        try:
            await asyncio.gather(self.pump(reader, server_writer), self.pump(server_reader, writer))
        finally:
            self.connections -= {writer, server_writer}

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one direction until it ends."""
        try:
            while data := await reader.read(CHUNK):
                await self.passing.wait()
                if self.mode == "delay":
                    await asyncio.sleep(random.random() * self.delay_s)
                if writer.is_closing():  # reset meanwhile
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            reset(writer)  # so that the peer sees the error
        writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a TCP reset, so that the peer sees an error instead of an end of file."""
    if (connection := writer.get_extra_info("socket")) is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    writer.transport.abort()


async def run(targets: Mapping[str, int]) -> None:
    """Serve links until standard input ends."""
    links = {name: Link(port) for name, port in targets.items()}
    ports = {}
    for name, link in links.items():
        link.passing.set()
        server = await asyncio.start_server(link.serve, HOST, 0)
        ports[name] = server.sockets[0].getsockname()[1]
    say(json.dumps(ports))
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        name, mode, *seconds = line.decode().split()
        links[name].order(mode, float(seconds[0]) if seconds else 0.0)
        say("done")


@dataclass
class Proxy:
    """The suite's handle of the proxy process."""

    process: asyncio.subprocess.Process
    ports: dict[str, int]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def order(self, link: str, mode: str, delay_s: float = 0.0) -> None:
        """Change the mode of a link."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        async with self._turn:
            self.process.stdin.write(f"{link} {mode} {delay_s}\n".encode())
            assert await self.process.stdout.readline() == b"done\n"


@asynccontextmanager
async def running_proxy(targets: Mapping[str, int]) -> AsyncIterator[Proxy]:
    """A proxy in front of these local ports."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.proxy", json.dumps(targets)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield Proxy(process, json.loads(await process.stdout.readline()))
    finally:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    uvloop.run(run(json.loads(sys.argv[1])))
