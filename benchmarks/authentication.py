"""What checking tokens costs: requests a second with `jwt` against `none`, in turns, and CPU time for each request.

`python -m benchmarks.authentication`; it brings a MongoDB of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rich.console import Console

from devservers.mongo import embedded_mongo
from domain.ratings import Entity, RatingTally, TallyKey
from storage.database import connect, in_transaction
from storage.ratings import RatingRepository

ROUNDS: Final = 10
ROUND_S: Final = 2.0
CONNECTIONS: Final = 16
PERMISSIONS: Final = "customerReviews:ratingRead customerReviews:read"
QUESTIONS: Final = {
    "ratings of 5 objects": (
        "/api/rating/entityRating",
        {"entityType": "Product", "entityIds": [str(id) for id in range(5)]},
    ),
    "an empty page of reviews": ("/api/customerReviews/reviewList", {"entityType": "Product", "take": 20}),
}


@dataclass
class Facade:
    """A facade in one mode, and what it did in each round."""

    mode: str
    port: int
    process: subprocess.Popen[bytes]
    headers: str
    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def cpu_seconds(self) -> float:
        """CPU time of the process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def load(self, path: str, body: object) -> None:
        """One round: many connections, each asks again as soon as it has its answer."""
        content = json.dumps(body)
        request = (
            f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{self.headers}content-length: {len(content)}\r\n\r\n{content}"
        ).encode()
        end = time.monotonic() + ROUND_S
        before = self.cpu_seconds()
        counts = await asyncio.gather(*(self._ask(request, end) for _ in range(CONNECTIONS)))
        self.rates.append(sum(counts) / ROUND_S)
        self.cpu_ms.append((self.cpu_seconds() - before) / sum(counts) * 1_000)

    async def _ask(self, request: bytes, end: float) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        count = 0
        while time.monotonic() < end:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            count += 1
        writer.close()
        return count


@contextmanager
def running(mode: str, uri: str, folder: Path, port: int) -> Iterator[Facade]:
    """A facade as a process."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = folder / "key.pem"
    pem.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    settings = {
        "MONGO__URI": uri,
        "MONGO__DATABASE": "bench",
        "KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "HTTP__PORT": str(port),
        # Counted, and never too many.
        "HTTP__RATE_PER_SECOND": "1000000",
        "LOG__LEVEL": "error",
        "LOG__FORMAT": "json",
        "DATA": str(folder),
        "AUTH__MODE": mode,
        "AUTH__JWT__ISSUER": "https://bench",
        "AUTH__JWT__AUDIENCE": "plaudit",
        "AUTH__JWT__PUBLIC_KEY_FILE": str(pem),
    }
    claims = {"iss": "https://bench", "aud": "plaudit", "sub": "bench", "scope": PERMISSIONS, "stores": ["A", "B"]}
    token = jwt.encode({**claims, "exp": int(time.time()) + 3_600}, key, "RS256")
    environment = {**os.environ, **{f"PLAUDIT_{name}": value for name, value in settings.items()}}
    process = subprocess.Popen([sys.executable, "-m", "plaudit", "api"], env=environment)
    try:
        yield Facade(mode, port, process, f"authorization: Bearer {token}\r\n" if mode == "jwt" else "")
    finally:
        process.terminate()
        process.wait(15)


async def main() -> None:
    """Run all rounds and print what they came to."""
    out = Console(highlight=False)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        async with embedded_mongo(folder, out.print) as mongo:
            await fill(mongo.uri)
            facades = [
                stack.enter_context(running(mode, mongo.uri, folder, port))
                for mode, port in (("none", 18_431), ("jwt", 18_432))
            ]
            for facade in facades:
                await until_ready(facade.port)
            for question, (path, body) in QUESTIONS.items():
                for facade in facades:
                    facade.rates.clear()
                    facade.cpu_ms.clear()
                for turn in range(ROUNDS):
                    for facade in facades if turn % 2 else reversed(facades):
                        await facade.load(path, body)
                none, token = facades
                out.print(f"{question}: requests a second, median of {ROUNDS} rounds in turns")
                for facade in facades:
                    rate, cpu = statistics.median(facade.rates), statistics.median(facade.cpu_ms)
                    out.print(f"  {facade.mode:<5} {rate:8.0f}/s   CPU {cpu:.3f} ms a request")
                ratios = [mine / theirs for mine, theirs in zip(token.rates, none.rates, strict=True)]
                out.print(f"  jwt/none, median of pairs: {statistics.median(ratios):.2f}")
                cpu_ratio = statistics.median(none.cpu_ms) / statistics.median(token.cpu_ms)
                out.print(f"  none/jwt, CPU time: {cpu_ratio:.2f}")
            stack.close()


async def fill(uri: str) -> None:
    """Some ratings in two stores."""
    client, database = connect(uri, "bench")
    async with client:
        tallies = {
            TallyKey(Entity("Product", str(id)), store): RatingTally(3, 1_200) for id in range(50) for store in "AB"
        }
        ratings = RatingRepository(database)
        await in_transaction(database, lambda session: ratings.add(tallies, session))


async def until_ready(port: int) -> None:
    """Wait until it answers."""
    async with asyncio.timeout(120), httpx.AsyncClient() as client:
        while True:
            try:
                await client.get(f"http://127.0.0.1:{port}/health/live")
                return
            except httpx.TransportError:
                await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
