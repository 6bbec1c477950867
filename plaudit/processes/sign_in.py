"""The configured sign-in of the console."""

from typing import TYPE_CHECKING, Final

from pydantic import AnyHttpUrl

from api.auth.tokens import Tokens
from api.services import Services
from console.sign_in.keys import CookieKeys
from console.sign_in.routes import SignIn
from plaudit.config import Settings
from plaudit.processes.authentication import confidential_address, issuer_keys, token_rules

if TYPE_CHECKING:
    from console.sign_in.openid import OpenIdProvider

_OIDC: Final = "PLAUDIT_CONSOLE__OIDC__"


def sign_in(settings: Settings, services: Services) -> SignIn:
    """The sign-in to the console of a facade. Raises ConfigurationError."""
    return SignIn(services, CookieKeys(settings.console.keys(), services.sessions.key), identity_provider(settings))


def identity_provider(settings: Settings) -> "OpenIdProvider | None":
    """The OpenID provider of visitors; None in other modes or without a client id. Raises ConfigurationError."""
    oidc, jwt = settings.console.oidc, settings.auth.jwt
    if settings.auth.mode != "jwt" or oidc.client_id is None:
        return None
    # Imported here, because it loads slowly and the other modes don't need it.
    from console.sign_in.openid import OpenIdClient, OpenIdProvider

    client = OpenIdClient(
        id=oidc.client_id,
        secret=oidc.client_secret.get_secret_value() if oidc.client_secret else None,
        issuer=jwt.issuer or "",
        scopes=oidc.scopes,
        parameters=oidc.parameters,
        authorize_url=_address("AUTHORIZE_URL", oidc.authorize_url),
        token_url=_address("TOKEN_URL", oidc.token_url),
    )
    return OpenIdProvider(client, Tokens(issuer_keys(jwt), token_rules(jwt, audience=oidc.client_id)))


def _address(name: str, url: AnyHttpUrl | None) -> str | None:
    if url is None:
        return None
    return confidential_address(f"{_OIDC}{name}", url, "others on the network can sign in")
