"""The interface of all ways of authentication."""

from typing import Final, Protocol

from domain.permissions import ANYBODY, Caller

MAX_CREDENTIAL_BYTES: Final = 8_192
"""Longer ones are refused before anybody looks at them."""


class RefusedCredentialError(Exception):
    """A credential that opens nothing. The message is for the client: it says why, and nothing that helps to forge."""


class KeysAwayError(Exception):
    """The public keys of the issuer can't be had; the same credential may work later."""


class Authenticator(Protocol):
    """Tells who asks. `mode` is the name of the way in the configuration."""

    mode: str

    def would_look_up(self, credential: str | None) -> bool:
        """True if the credential can only be checked by a look-up in the database."""
        return False

    async def caller(self, credential: str | None) -> Caller:
        """The owner of a credential. Raises RefusedCredentialError, KeysAwayError, or what its server's being away
        raises: in doubt the request is refused."""
        ...


class Nobody(Authenticator):
    """Lets everyone in, and asks for nothing."""

    mode = "none"

    async def caller(self, credential: str | None) -> Caller:
        """Anybody, whatever the credential."""
        return ANYBODY


def required(credential: str | None) -> str:
    """The credential. Raises RefusedCredentialError when there is none, or one that is too long to be true."""
    if not credential:
        raise RefusedCredentialError("Say who you are: Authorization: Bearer <token>, or X-API-Key: <key>.")
    if len(credential) > MAX_CREDENTIAL_BYTES:
        raise RefusedCredentialError(f"The credential is longer than {MAX_CREDENTIAL_BYTES} bytes.")
    return credential
