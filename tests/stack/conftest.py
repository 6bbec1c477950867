"""The stack for the tests of this folder, which run only with `--stack`."""

import shlex
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.stack.stack import Stack


@pytest.fixture(scope="session")
async def stack(request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    compose: str = request.config.getoption("--stack")
    if not compose:
        pytest.skip("needs a Docker engine: --stack='docker compose'")
    stack = Stack(shlex.split(compose))
    try:
        await stack.start("--build")
        yield stack
    finally:
        await stack.run("down", "--volumes")


@pytest.fixture(scope="session")
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.http, timeout=40) as client:
        yield client
