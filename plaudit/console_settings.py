"""Settings of the console."""

import re
from datetime import timedelta
from typing import Annotated, Final

from pydantic import AnyHttpUrl, BaseModel, Field, SecretStr, field_validator, model_validator

from domain.sessions import cookie_key
from plaudit.secret_settings import each_key

_RESERVED: Final = frozenset(
    {"client_id", "client_secret", "code", "code_challenge", "code_challenge_method", "code_verifier", "grant_type"}
    | {"nonce", "redirect_uri", "response_mode", "response_type", "scope", "state"}
)
"""Parameters that Plaudit sets in its requests to the provider; only others can be configured."""

_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:\d{1,5})?", re.ASCII)


class OpenIdSettings(BaseModel):
    """Plaudit as a client of the OpenID provider that issues the tokens of `PLAUDIT_AUTH__JWT__ISSUER`."""

    client_id: Annotated[str | None, Field(description="Unset: nobody can sign in with the mode `jwt`")] = None
    client_secret: Annotated[SecretStr | None, Field(description="Unset: a public client, with PKCE only")] = None
    authorize_url: Annotated[
        AnyHttpUrl | None, Field(description="Set together with `token_url`. Unset: as the provider publishes it")
    ] = None
    token_url: Annotated[
        AnyHttpUrl | None,
        Field(description="Endpoint that exchanges codes for tokens. Unset: as the provider publishes it"),
    ] = None
    scopes: Annotated[
        str,
        Field(
            description="Separated by spaces, including `openid`, and the permissions if tokens carry them in `scope`"
        ),
    ] = "openid"
    parameters: Annotated[
        dict[str, str], Field(description="Further ones, as the provider needs them to know the audience; JSON")
    ] = {}

    @field_validator("scopes")
    @classmethod
    def _check_scopes(cls, scopes: str) -> str:
        if "openid" not in scopes.split():
            raise ValueError("openid must be among the scopes")
        return " ".join(scopes.split())

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, str]) -> dict[str, str]:
        if reserved := sorted(_RESERVED & parameters.keys()):
            raise ValueError(f"set by Plaudit itself: {', '.join(reserved)}")
        return parameters

    @model_validator(mode="after")
    def _check_addresses(self) -> "OpenIdSettings":
        if (self.authorize_url is None) != (self.token_url is None):
            raise ValueError("authorize_url and token_url: set both or neither")
        return self


class ConsoleSettings(BaseModel):
    """Sign-in to the console, and the content of its pages."""

    cookie_keys: Annotated[
        SecretStr | None,
        Field(
            description="32 bytes in base64; several separated by commas: the first seals new cookies, all open "
            "them; [to change it](operations.md#rotating-keys). Unset: a key in the database"
        ),
    ] = None
    oidc: OpenIdSettings = OpenIdSettings()
    target_hours: Annotated[
        float,
        Field(gt=0, le=8_760, description="Hours after which a waiting review is late, and its age is shown in red"),
    ] = 24
    image_origins: Annotated[
        tuple[str, ...],
        Field(description="Origins of pictures of rated objects, besides the console's own; none by default"),
    ] = ()

    @field_validator("image_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin}: must be an origin like https://images.example.com")
        return origins

    @property
    def target(self) -> timedelta:
        """The age from which a review that waits for a moderator is late."""
        return timedelta(hours=self.target_hours)

    @field_validator("cookie_keys")
    @classmethod
    def _check_cookie_keys(cls, keys: SecretStr | None) -> SecretStr | None:
        for key in each_key(keys):
            cookie_key(key)
        return keys

    def keys(self) -> list[bytes]:
        """The configured cookie keys; the first one seals new cookies."""
        return [cookie_key(key) for key in each_key(self.cookie_keys)]
