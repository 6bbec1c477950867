"""The check of the token issuer."""

from collections.abc import AsyncIterator
from typing import Final

from api.auth.authentication import KeysAwayError
from api.auth.keys_of_issuer import FetchedKeys
from domain.findings import Finding, failed, ok
from plaudit.config import Settings
from plaudit.credentials import without_credentials
from plaudit.errors import short
from plaudit.processes.authentication import issuer_keys

_CHECK: Final = "token issuer"
_ADVICE: Final = "Start the issuer, or correct PLAUDIT_AUTH__JWT__JWKS_URL: until then requests with tokens get a 503."


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
