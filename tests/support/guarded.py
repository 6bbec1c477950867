"""Access to the console without signing in: by tokens of one issuer in a header, or for everybody."""

from typing import Final

from starlette.requests import Request

from api.auth.keys_of_issuer import StaticKey
from api.auth.tokens import TokenRules, Tokens
from console.access import ConsoleAccess
from tests.support.issuer import AUDIENCE, ISSUER, Issuer, ec_key, pem

ISSUER_OF_ALL: Final = Issuer({"first": ec_key()})
AUTHENTICATOR: Final = Tokens(
    StaticKey(pem(ISSUER_OF_ALL.keys["first"]), ["ES256"]), TokenRules(ISSUER, AUDIENCE, algorithms=["ES256"])
)


class OpenDoor(ConsoleAccess):
    is_open = True
    routes = ()

    async def credential(self, request: Request) -> None:
        return None


class HeaderDoor(ConsoleAccess):
    """A door that reads the credential from a header, to test pages without signing in."""

    is_open = False
    routes = ()

    async def credential(self, request: Request) -> str | None:
        return request.headers.get("x-credential")
