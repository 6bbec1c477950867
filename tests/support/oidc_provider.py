"""A real OpenID provider: npm's `oidc-provider`, installed once into the user's cache."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from .issuer import AUDIENCE
from .npm import npm_installed
from .waiting import eventually, free_port

SOURCES = Path(__file__).with_name("oidc")
RESOURCE = "https://api.test/plaudit"


@dataclass(frozen=True)
class OpenIdServer:
    """A running provider. Its clients are `console` and `other`, with secrets `secret-of-<id>`."""

    address: str

    def environment(self, permissions: str) -> dict[str, str]:
        """The settings of a service that trusts it, with these scopes for visitors of the console."""
        return {
            "PLAUDIT_AUTH__MODE": "jwt",
            "PLAUDIT_AUTH__JWT__ISSUER": self.address,
            "PLAUDIT_AUTH__JWT__AUDIENCE": AUDIENCE,
            "PLAUDIT_AUTH__JWT__JWKS_URL": f"{self.address}/jwks",
            "PLAUDIT_AUTH__JWT__LEEWAY": "0",
            "PLAUDIT_CONSOLE__OIDC__CLIENT_ID": "console",
            "PLAUDIT_CONSOLE__OIDC__CLIENT_SECRET": "secret-of-console",
            "PLAUDIT_CONSOLE__OIDC__SCOPES": f"openid {permissions}",
            "PLAUDIT_CONSOLE__OIDC__PARAMETERS": f'{{"resource": "{RESOURCE}"}}',
        }


@asynccontextmanager
async def openid_server(callback: str, permissions: str, log: Path) -> AsyncIterator[OpenIdServer]:
    """A provider that redirects visitors back to `callback`. Skips the test if it can't be installed."""
    folder, port = await asyncio.to_thread(_installed), free_port()
    environment = {
        **{"PATH": os.environ["PATH"], "PORT": str(port), "CALLBACK": callback},
        **{"AUDIENCE": AUDIENCE, "PERMISSIONS": permissions},
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["node", "provider.js"], cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        server = OpenIdServer(f"http://127.0.0.1:{port}")
        try:
            async with httpx.AsyncClient(base_url=server.address) as http:

                async def serves() -> bool:
                    assert process.poll() is None, log.read_text()
                    try:
                        return (await http.get("/.well-known/openid-configuration")).is_success
                    except httpx.TransportError:
                        return False

                await eventually(serves)
            yield server
        finally:
            process.kill()
            process.wait()


def _installed() -> Path:
    """The folder of the provider and its locked packages."""
    files = [file for file in SOURCES.iterdir() if file.is_file()]
    return npm_installed("oidc", files, needed_for="a real OpenID provider")
