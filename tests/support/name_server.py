"""A catalogue that returns names over HTTP, or fails to, as the test wants."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from .sockets import listening

Mood = Literal["answers", "hangs", "fails", "redirects", "floods"]


@dataclass
class NameServer:
    """Answers `GET /<anything>/<id>` with the product of that id, or misbehaves according to its mood."""

    port: int = 0
    mood: Mood = "answers"
    images: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    asked: Counter[str] = field(default_factory=Counter)
    headers: list[str] = field(default_factory=list)
    hanging: set[asyncio.StreamWriter] = field(default_factory=set)
    at_once: int = 0
    most_at_once: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            target = head.split(" ", 2)[1]
            self.headers.append(head)
            self.asked[target] += 1
            if self.mood == "hangs":
                self.hanging.add(writer)
                await reader.read()  # until the client gives up, or `let_go` is called
                return
            status, body, more = self.answer(target)
            writer.write(
                f"HTTP/1.1 {status} -\r\n{more}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
            )
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client gave up
        finally:
            self.at_once -= 1
            self.hanging.discard(writer)
            writer.close()

    def let_go(self) -> None:
        """Close the hanging connections."""
        for writer in self.hanging:
            writer.close()

    def answer(self, target: str) -> tuple[int, bytes, str]:
        id = target.rpartition("/")[2]
        if self.mood == "fails":
            return 500, b"", ""
        if self.mood == "floods":
            return 200, b" " * 2_000_000, ""
        if self.mood == "redirects" and not target.startswith("/moved"):
            return 302, b"", f"location: /moved/{id}\r\n"
        if id in self.unknown:
            return 404, b"", ""
        product = {"title": f"Name of {id}", "images": [{"url": self.images.get(id, f"/{id}.png")}]}
        return 200, json.dumps({"product": product}).encode(), ""


@asynccontextmanager
async def running_name_server() -> AsyncIterator[NameServer]:
    names = NameServer()
    async with listening(names.serve) as names.port:
        yield names
