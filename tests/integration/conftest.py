"""Fixtures of tests on real servers."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from storage.database import Database
from tests.support.chromium import chromium
from tests.support.consumers import Desk, opened_desk
from tests.support.service import Servers, own_database
from tests.support.widget import Filled, filled_service


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for the tests of a file, each in a context of its own."""
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def database(servers: Servers) -> AsyncIterator[Database]:
    """A database of its own, without indexes."""
    async with own_database(servers) as database:
        yield database


@pytest.fixture
async def desk(servers: Servers) -> AsyncIterator[Desk]:
    """Consumers on a database of their own."""
    async with opened_desk(servers) as desk:
        yield desk


@pytest.fixture(scope="module")
async def filled(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Filled]:
    """A service with reviews for the widget, shared by the tests of a file."""
    async with filled_service(servers, tmp_path_factory.mktemp("widget")) as filled:
        yield filled
