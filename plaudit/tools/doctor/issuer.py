"""The checks of the token issuer, and of the sign-in of the console at it."""

from collections.abc import AsyncIterator
from typing import Final

from api.auth.authentication import KeysAwayError
from api.auth.keys_of_issuer import FetchedKeys
from domain.findings import Finding, failed, ok
from plaudit.config import Settings
from plaudit.credentials import without_credentials
from plaudit.errors import short
from plaudit.processes.authentication import issuer_keys
from plaudit.processes.sign_in import identity_provider

_CHECK: Final = "token issuer"
_SIGN_IN: Final = "sign-in"
_ADVICE: Final = "Start the issuer, or correct PLAUDIT_AUTH__JWT__JWKS_URL: until then requests with tokens get a 503."
_NO_SIGN_IN: Final = (
    "Start the issuer, correct PLAUDIT_AUTH__JWT__ISSUER, or set PLAUDIT_CONSOLE__OIDC__AUTHORIZE_URL and TOKEN_URL: "
    "until then nobody can sign in to the console."
)


async def check_issuer(settings: Settings) -> AsyncIterator[Finding]:
    """Fetch the issuer's keys as the API does; no finding if it fetches none. Raises ConfigurationError."""
    if settings.auth.mode != "jwt":
        return
    keys = issuer_keys(settings.auth.jwt)
    if not isinstance(keys, FetchedKeys):
        return
    url = without_credentials(str(settings.auth.jwt.jwks_url))
    try:
        await keys.check()
    except KeysAwayError as error:
        yield failed(_CHECK, f"no keys can be fetched from {url}: {short(error)}", _ADVICE)
    else:
        yield ok(_CHECK, f"{url} has keys")


async def check_sign_in(settings: Settings) -> AsyncIterator[Finding]:
    """Discover the provider's endpoints as the console does; no finding if nobody signs in there, or they are set.
    Raises ConfigurationError."""
    oidc = settings.console.oidc
    if oidc.authorize_url or (provider := identity_provider(settings)) is None:
        return
    issuer = without_credentials(settings.auth.jwt.issuer or "")
    if error := await provider.fault():
        yield failed(_SIGN_IN, f"{issuer} can't be used: {short(error)}", _NO_SIGN_IN)
    else:
        yield ok(_SIGN_IN, f"{issuer} lets visitors of the console sign in")
