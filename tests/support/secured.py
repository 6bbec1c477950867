"""A service that requires authentication, and clients with tokens."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from domain.permissions import ALL_PERMISSIONS, Permission

from .facade import Facade
from .issuer import AUDIENCE, ISSUER, Issuer, ec_key, pem
from .service import Servers, Service

EVERYTHING = frozenset(ALL_PERMISSIONS)
OWN_ALONE = EVERYTHING - {Permission.CREATE_REVIEWS_FOR_OTHERS}


@dataclass(frozen=True)
class Secured:
    """A service in mode jwt, and the issuer that it trusts."""

    service: Service
    issuer: Issuer = field(default_factory=lambda: Issuer({"first": ec_key()}))

    def trust(self) -> None:
        """Make the service accept the issuer's tokens from its next start on."""
        file = self.service.folder / "issuer.pem"
        file.write_bytes(pem(self.issuer.keys["first"]))
        self.service.environment |= {
            "PLAUDIT_AUTH__MODE": "jwt",
            "PLAUDIT_AUTH__JWT__ISSUER": ISSUER,
            "PLAUDIT_AUTH__JWT__AUDIENCE": AUDIENCE,
            "PLAUDIT_AUTH__JWT__PUBLIC_KEY_FILE": str(file),
        }

    def client(
        self, permissions: Iterable[str] = EVERYTHING, stores: Iterable[str] | None = None, **token: Any
    ) -> httpx.AsyncClient:
        """A client with its own token, to be used in a block."""
        bearer = self.issuer.token(sorted(permissions), stores, **token)
        return self.service.client(headers={"authorization": f"Bearer {bearer}"})

    @asynccontextmanager
    async def facade(
        self, permissions: Iterable[str] = EVERYTHING, stores: Iterable[str] | None = None, **token: Any
    ) -> AsyncIterator[Facade]:
        """A facade with its own token, for requests that must succeed."""
        async with self.client(permissions, stores, **token) as client:
            yield Facade(client)


@asynccontextmanager
async def running_secured(servers: Servers, folder: Path, **environment: str) -> AsyncIterator[Secured]:
    """A ready service in mode jwt."""
    secured = Secured(Service(servers, folder, environment=environment))
    secured.trust()
    async with secured.service.running():
        yield secured
