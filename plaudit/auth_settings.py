"""Settings of authentication."""

from typing import Annotated, Literal

from pydantic import AnyHttpUrl, BaseModel, Field

from plaudit.server_settings import OptionalFile

AuthMode = Literal["none", "api_key", "jwt"]
SignatureAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # asymmetric only: a service that verifies tokens must not be able to sign them


class JwtSettings(BaseModel):
    """Rules for tokens, and the keys that verify them: from a JWKS address or a file, one of the two."""

    issuer: Annotated[str | None, Field(description="Must be the token's `iss`")] = None
    audience: Annotated[str | None, Field(description="Must be in the token's `aud`")] = None
    jwks_url: Annotated[AnyHttpUrl | None, Field(description="https, or on a loopback address")] = None
    jwks_lifetime: Annotated[
        float, Field(ge=10, le=86_400, description="Seconds before the keys are fetched again")
    ] = 300.0
    public_key_file: Annotated[OptionalFile, Field(description="PEM")] = None
    algorithms: Annotated[
        tuple[SignatureAlgorithm, ...], Field(min_length=1, description="Accepted signature algorithms")
    ] = ("RS256", "ES256", "EdDSA")
    leeway: Annotated[float, Field(ge=0, le=300, description="Accepted difference of clocks in seconds")] = 30.0
    permissions_claim: Annotated[
        str, Field(description="Claim with the permissions: a string separated by spaces, or an array")
    ] = "scope"
    stores_claim: Annotated[str, Field(description="Claim with an array of store ids; without it: all stores")] = (
        "stores"
    )


class AuthSettings(BaseModel):
    """Authentication of callers."""

    mode: Annotated[
        AuthMode | None,
        Field(description="`none`, `api_key` or `jwt`. Unset: `none`, but the API starts on a loopback address only"),
    ] = None
    jwt: JwtSettings = JwtSettings()
