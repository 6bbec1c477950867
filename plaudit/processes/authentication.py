"""The authenticator of the configured mode."""

from typing import Final

from pydantic import AnyHttpUrl

from api.auth.api_keys import ApiKeys
from api.auth.authentication import Authenticator, Nobody
from api.auth.keys_of_issuer import FetchedKeys, IssuerKeys, StaticKey
from api.auth.tokens import TokenRules, Tokens
from domain.origins import is_confidential, is_loopback
from plaudit.auth_settings import JwtSettings
from plaudit.config import ConfigurationError, Settings
from plaudit.effective_configuration import unknown_variables
from storage.database import Database
from storage.keys import ApiKeyRepository

_MODE: Final = "PLAUDIT_AUTH__MODE"
_JWT: Final = "PLAUDIT_AUTH__JWT__"


def check_authentication(settings: Settings) -> None:
    """Raises ConfigurationError if the API must not start: no mode is chosen although it is open to others, or has
    settings for tokens or a misspelt one, or settings of the mode are missing or unusable."""
    if settings.auth.mode is None and not is_loopback(settings.http.host):
        raise ConfigurationError(
            f"{_MODE} is not set: the API would be open to everyone who can reach {settings.http.host}. Set it to "
            "api_key or jwt, or to none if access is restricted otherwise; or listen on a loopback address "
            "(PLAUDIT_HTTP__HOST=127.0.0.1)."
        )
    jwt = settings.auth.jwt
    if settings.auth.mode is None and any((jwt.issuer, jwt.audience, jwt.jwks_url, jwt.public_key_file)):
        raise ConfigurationError(
            f"{_MODE} is not set: everyone has access, and {_JWT}* have no effect. Set it to jwt, or to none or "
            "api_key if tokens shouldn't be accepted."
        )
    misspelt = [name for name in unknown_variables(settings) if name.startswith("PLAUDIT_AUTH")]
    if settings.auth.mode is None and misspelt:
        many = len(misspelt) > 1
        raise ConfigurationError(
            f"{', '.join(misspelt)} {'are no settings' if many else 'is no setting'}, and {_MODE} is not set: everyone "
            f"has access. Correct the {'names' if many else 'name'} (two underscores follow AUTH), or set {_MODE} to "
            "none."
        )
    if settings.auth.mode == "jwt":
        issuer_keys(jwt)


def authenticator(settings: Settings, database: Database) -> Authenticator:
    """The authenticator of the API. Raises ConfigurationError."""
    check_authentication(settings)
    match settings.auth.mode:
        case "api_key":
            return ApiKeys(ApiKeyRepository(database))
        case "jwt":
            jwt = settings.auth.jwt
            return Tokens(issuer_keys(jwt), token_rules(jwt, audience=jwt.audience or ""))
        case _:
            return Nobody()


def token_rules(jwt: JwtSettings, *, audience: str) -> TokenRules:
    """The rules for the issuer's tokens with this audience."""
    return TokenRules(
        issuer=jwt.issuer or "",
        audience=audience,
        algorithms=jwt.algorithms,
        leeway=jwt.leeway,
        permissions_claim=jwt.permissions_claim,
        stores_claim=jwt.stores_claim,
    )


def issuer_keys(jwt: JwtSettings) -> IssuerKeys:
    """The keys that verify the issuer's signatures. Raises ConfigurationError."""
    missing = [name for name, value in (("ISSUER", jwt.issuer), ("AUDIENCE", jwt.audience)) if not value]
    if missing:
        raise ConfigurationError(f"{_JWT}{missing[0]}: must be set, because tokens can't be verified without it.")
    if (jwt.jwks_url is None) == (jwt.public_key_file is None):
        raise ConfigurationError(f"{_JWT}JWKS_URL or {_JWT}PUBLIC_KEY_FILE: set one of them, not both.")
    if jwt.jwks_url is not None:
        url = confidential_address(f"{_JWT}JWKS_URL", jwt.jwks_url, "an attacker on the network can sign tokens")
        return FetchedKeys(url, jwt.algorithms, lifetime=jwt.jwks_lifetime)
    try:
        pem = jwt.public_key_file.read_bytes() if jwt.public_key_file else b""
        return StaticKey(pem, jwt.algorithms)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{_JWT}PUBLIC_KEY_FILE: {error}") from error


def confidential_address(variable: str, url: AnyHttpUrl, risk: str) -> str:
    """The address in a setting. Raises ConfigurationError, which names the risk, if others can read what is sent to
    it."""
    if not is_confidential(url.scheme, (url.host or "").strip("[]")):
        raise ConfigurationError(f"{variable}: must be https, otherwise {risk}.")
    return str(url)
