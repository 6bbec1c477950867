"""Fixtures of tests on real servers."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.support.chromium import chromium


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for the tests of a file, each in a context of its own."""
    async with chromium() as browser:
        yield browser
