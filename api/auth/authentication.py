"""The interface of all authentication modes."""

from typing import Final, Protocol

from domain.permissions import ANYBODY, Caller

MAX_CREDENTIAL_BYTES: Final = 8_192
"""Maximum bytes of a credential; a longer one is refused unread."""


class RefusedCredentialError(Exception):
    """A credential isn't valid. The message is for the client: it has the reason, and nothing that helps to forge
    one."""


class KeysAwayError(Exception):
    """The issuer's public keys are unavailable; the same credential may work later."""


class Authenticator(Protocol):
    """Identifies callers. `mode` is its name in the configuration; `asks_issuer`: it may wait for a server of somebody
    else, and for none of ours."""

    mode: str
    asks_issuer: bool = False

    def would_look_up(self, credential: str | None) -> bool:
        """True if checking the credential takes a look-up in the database."""
        return False

    async def caller(self, credential: str | None) -> Caller:
        """The owner of a credential. Raises RefusedCredentialError, KeysAwayError, or the errors of an unavailable
        server: in doubt the request is refused."""
        ...


class Nobody(Authenticator):
    """Accepts every request, and needs no credential."""

    mode = "none"

    async def caller(self, credential: str | None) -> Caller:
        """Anybody, whatever the credential."""
        return ANYBODY


def required(credential: str | None) -> str:
    """The credential. Raises RefusedCredentialError if it is missing or too long."""
    if not credential:
        raise RefusedCredentialError(
            "This needs a credential: send Authorization: Bearer <token>, or X-API-Key: <key>."
        )
    if len(credential) > MAX_CREDENTIAL_BYTES:
        raise RefusedCredentialError(f"The credential is longer than {MAX_CREDENTIAL_BYTES} bytes.")
    return credential
