"""An OpenID Connect issuer that signs tokens and publishes its keys, or fails to, as the test wants."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from .sockets import listening

ISSUER = "https://issuer.test"
AUDIENCE = "plaudit"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
Mood = Literal["answers", "hangs", "fails", "floods", "nests", "redirects"]


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


@cache
def first_key() -> rsa.RSAPrivateKey:
    """The key of every issuer that is given none: making one takes longer than most tests."""
    return rsa_key()


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(key: PrivateKey) -> bytes:
    """The public key."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(id: str, key: PrivateKey) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        return {**RSAAlgorithm.to_jwk(public, as_dict=True), "kid": id, "use": "sig"}
    return {**ECAlgorithm.to_jwk(public, as_dict=True), "kid": id, "use": "sig"}


@dataclass
class Issuer:
    """Signs with any of its keys. `published` names those in its key set."""

    keys: dict[str, PrivateKey] = field(default_factory=lambda: {"first": first_key()})
    published: list[str] = field(default_factory=lambda: ["first"])
    port: int = 0
    mood: Mood = "answers"
    asked: int = 0
    oddities: list[Any] = field(default_factory=list)
    """Other entries, published before the keys."""

    @property
    def jwks_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    def token(
        self,
        permissions: Iterable[str] = (),
        stores: Iterable[str] | None = None,
        *,
        subject: str = "anna",
        kid: str | None = "first",
        key: Any = None,
        algorithm: str | None = None,
        headers: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A token; claims that are None are left out."""
        now = int(time.time())
        payload: dict[str, Any] = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "exp": now + 600,
            "iat": now,
            "scope": " ".join(permissions),
            **({} if stores is None else {"stores": list(stores)}),
            **claims,
        }
        key = key if key is not None else self.keys[kid or "first"]
        algorithm = algorithm or ("ES256" if isinstance(key, ec.EllipticCurvePrivateKey) else "RS256")
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, key, algorithm, {**({"kid": kid} if kid else {}), **(headers or {})})

    def claiming(self, **claims: Any) -> str:
        """A token with exactly these claims, nulls included."""
        payload = jwt.decode(self.token(), options={"verify_signature": False})
        return jwt.encode({**payload, **claims}, self.keys["first"], "RS256", {"kid": "first"})

    def published_keys(self) -> dict[str, Any]:
        return {"keys": [*self.oddities, *(jwk(id, self.keys[id]) for id in self.published)]}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            if self.mood == "hangs":
                await reader.read()  # until the client gives up
                return
            body = json.dumps(self.published_keys()).encode()
            head = "200 OK"
            if self.mood == "fails":
                head, body = "500 -", b""
            elif self.mood == "floods":
                body += b" " * 1_000_000
            elif self.mood == "nests":
                body = b"[" * 100_000
            elif self.mood == "redirects":
                head = f"302 -\r\nlocation: {self.jwks_url}"
            writer.write(f"HTTP/1.1 {head}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client gave up
        finally:
            writer.close()


@asynccontextmanager
async def running_issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    async with listening(issuer.serve) as issuer.port:
        yield issuer
