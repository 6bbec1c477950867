"""`plaudit doctor` on the token issuer: its keys and the endpoints for visitors can be fetched, can't be, or aren't."""

from pathlib import Path

import pytest
from pydantic import AnyHttpUrl

from domain.findings import Finding, Level
from plaudit.auth_settings import AuthSettings, JwtSettings
from plaudit.config import Settings
from plaudit.console_settings import ConsoleSettings, OpenIdSettings
from plaudit.tools.doctor.issuer import check_issuer, check_sign_in
from tests.support.issuer import AUDIENCE, ISSUER, Mood, pem, rsa_key, running_issuer
from tests.support.sockets import listening
from tests.support.waiting import free_port
from tests.unit.test_sign_in_provider import Publisher


async def findings(url: str) -> list[Finding]:
    jwt = JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=AnyHttpUrl(url))
    return [each async for each in check_issuer(Settings(auth=AuthSettings(mode="jwt", jwt=jwt)))]


async def test_usable_keys() -> None:
    async with running_issuer() as issuer:
        (finding,) = await findings(issuer.jwks_url)
    assert (finding.check, finding.level) == ("token issuer", Level.OK)


@pytest.mark.parametrize(("mood", "why"), [("fails", "500"), ("redirects", "302")])
async def test_issuer_without_usable_keys_fails(mood: Mood, why: str) -> None:
    async with running_issuer() as issuer:
        issuer.mood = mood
        (finding,) = await findings(issuer.jwks_url)
    assert (finding.level, why in finding.text) == (Level.FAIL, True)


async def test_issuer_that_publishes_no_keys_fails() -> None:
    async with running_issuer() as issuer:
        issuer.published = []
        (finding,) = await findings(issuer.jwks_url)
    assert finding.level is Level.FAIL


async def test_unreachable_issuer_fails() -> None:
    (finding,) = await findings(f"http://127.0.0.1:{free_port()}/jwks")
    assert finding.level is Level.FAIL
    assert "PLAUDIT_AUTH__JWT__JWKS_URL" in finding.advice


@pytest.mark.parametrize("mood", ["answers", "fails"])
async def test_credentials_in_the_address_are_not_shown(mood: Mood) -> None:
    async with running_issuer() as issuer:
        issuer.mood = mood
        (finding,) = await findings(issuer.jwks_url.replace("//", "//user:pass-of@") + "?key=pass-of")
    assert "pass-of" not in finding.text
    assert f"127.0.0.1:{issuer.port}/keys" in finding.text


async def test_no_finding_where_no_keys_are_fetched(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(pem(rsa_key()))
    jwt = JwtSettings(issuer=ISSUER, audience=AUDIENCE, public_key_file=key)
    for auth in (AuthSettings(mode="jwt", jwt=jwt), AuthSettings(mode="none")):
        assert [each async for each in check_issuer(Settings(auth=auth))] == []


async def sign_in_findings(publisher: Publisher, oidc: OpenIdSettings) -> list[Finding]:
    jwt = JwtSettings(issuer=publisher.address, audience=AUDIENCE, jwks_url=AnyHttpUrl(publisher.jwks_url))
    auth, console = AuthSettings(mode="jwt", jwt=jwt), ConsoleSettings(oidc=oidc)
    return [each async for each in check_sign_in(Settings(auth=auth, console=console))]


@pytest.mark.parametrize(
    ("mood", "level", "text"),
    [("answers", Level.OK, "lets visitors"), ("fails", Level.FAIL, "500"), ("nests", Level.FAIL, "can't be used")],
)
async def test_endpoints_of_sign_in_are_fetched(mood: Mood, level: Level, text: str) -> None:
    publisher = Publisher(mood=mood)
    async with listening(publisher.serve) as publisher.port:
        (finding,) = await sign_in_findings(publisher, OpenIdSettings(client_id="console"))
    assert (finding.check, finding.level, text in finding.text) == ("sign-in", level, True)


async def test_unreachable_provider_fails() -> None:
    (finding,) = await sign_in_findings(Publisher(port=free_port()), OpenIdSettings(client_id="console"))
    assert finding.level is Level.FAIL
    assert "PLAUDIT_AUTH__JWT__ISSUER" in finding.advice


async def test_no_finding_where_no_endpoints_are_fetched() -> None:
    address = AnyHttpUrl("https://provider.test/")
    known = OpenIdSettings(client_id="console", authorize_url=address, token_url=address)
    for oidc in (OpenIdSettings(), known):
        assert await sign_in_findings(Publisher(port=free_port()), oidc) == []
