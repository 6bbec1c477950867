"""API processes with their own MongoDB, but without Kafka and workers, for measurements with clients."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from benchmarks.comparison import p99
from benchmarks.facade import free_port, until_open
from benchmarks.http_load import open_connection, post
from devservers.mongo import embedded_mongo
from domain.ratings import Entity, RatingTally, TallyKey
from storage.database import connect, in_transaction
from storage.ratings import RatingRepository

RATINGS: Final = "ratings of 5 objects"
QUERIES: Final = {
    RATINGS: (
        "/api/rating/entityRating",
        {"entityType": "Product", "entityIds": [str(id) for id in range(5)]},
    ),
    "an empty page of reviews": ("/api/customerReviews/reviewList", {"entityType": "Product", "take": 20}),
}
_DATABASE: Final = "bench"
_ISSUER: Final = "https://bench"
_PERMISSIONS: Final = "customerReviews:ratingRead customerReviews:read"


@dataclass(frozen=True, slots=True)
class Api:
    """An API process with one mode of authentication, and the headers that authenticate a client."""

    mode: str
    port: int
    process: subprocess.Popen[bytes]
    headers: str

    def request(self, query: str) -> bytes:
        """The request for one of `QUERIES`."""
        path, body = QUERIES[query]
        return post(path, body, self.headers)

    async def p99_ms(self, requests: int) -> float:
        """The 99th percentile of the time for ratings on a new connection, in ms. Raises AssertionError: an error."""
        request, latencies = self.request(RATINGS), []
        for _ in range(requests):
            started = time.perf_counter()
            connection = await open_connection(self.port)
            status, answer = await connection.ask(request)
            if status != 200:
                raise AssertionError(answer)
            connection.close()
            latencies.append((time.perf_counter() - started) * 1_000)
        return p99(latencies)


@asynccontextmanager
async def apis(report: Callable[[str], None], *modes: str, kafka: str = "127.0.0.1:1") -> AsyncIterator[list[Api]]:
    """An API process for each mode of authentication, all with one MongoDB; by default without a Kafka."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with embedded_mongo(folder, report) as mongo:
            await _fill(mongo.uri)
            with ExitStack() as stack:
                running = [stack.enter_context(_running(mode, mongo.uri, kafka, folder)) for mode in modes]
                for api in running:
                    await until_open(api.process, api.port)
                yield running


@contextmanager
def _running(mode: str, uri: str, kafka: str, folder: Path) -> Iterator[Api]:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = folder / f"{mode}.pem"
    pem.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    port = free_port()
    settings = {
        "MONGO__URI": uri,
        "MONGO__DATABASE": _DATABASE,
        "KAFKA__BOOTSTRAP_SERVERS": kafka,
        "HTTP__PORT": str(port),
        # Rates are counted, but never exceeded.
        "HTTP__RATE_PER_SECOND": "1000000",
        "LOG__LEVEL": "error",
        "LOG__FORMAT": "json",
        "DATA": str(folder),
        "AUTH__MODE": mode,
        "AUTH__JWT__ISSUER": _ISSUER,
        "AUTH__JWT__AUDIENCE": "plaudit",
        "AUTH__JWT__PUBLIC_KEY_FILE": str(pem),
    }
    claims = {"iss": _ISSUER, "aud": "plaudit", "sub": "bench", "scope": _PERMISSIONS, "stores": ["A", "B"]}
    token = jwt.encode({**claims, "exp": int(time.time()) + 3_600}, key, "RS256")
    environment = {**os.environ, **{f"PLAUDIT_{name}": value for name, value in settings.items()}}
    process = subprocess.Popen([sys.executable, "-m", "plaudit", "api"], env=environment)
    try:
        yield Api(mode, port, process, f"authorization: Bearer {token}\r\n" if mode == "jwt" else "")
    finally:
        process.terminate()
        process.wait(15)


async def _fill(uri: str) -> None:
    """Store ratings of 50 objects in two stores."""
    client, database = connect(uri, _DATABASE)
    async with client:
        tallies = {
            TallyKey(Entity("Product", str(id)), store): RatingTally.of([400] * 3) for id in range(50) for store in "AB"
        }
        ratings = RatingRepository(database)
        await in_transaction(database, lambda session: ratings.add(tallies, session))
