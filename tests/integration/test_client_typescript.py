"""The TypeScript client: its types, its example and its handling of problems."""

import asyncio
import json
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import httpx
import pytest

from plaudit.tools.openapi import service_document
from tests.support.documents import ROOT, blocks_of
from tests.support.facade import Facade, new_id
from tests.support.images import picture
from tests.support.npm import npm_installed
from tests.support.service import Service

pytestmark = pytest.mark.slow

CLIENT = ROOT / "clients" / "typescript"
SOURCES = ("index.ts", "schema.d.ts", "package.json", "tsconfig.json")
PROGRAMS = ROOT / "tests" / "support" / "typescript"
_COMPILE_S = 300


async def run(folder: Path, *command: str, given: str = "") -> str:
    """Run a command, which must succeed; returns its output."""

    def run_to_end() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, timeout=_COMPILE_S)

    done = await asyncio.to_thread(run_to_end)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
async def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the client with its build files, the example of its page and the programs of the tests."""
    locked = [CLIENT / "package.json", CLIENT / "package-lock.json"]
    installed = await asyncio.to_thread(npm_installed, "typescript", locked, needed_for="the TypeScript compiler")
    folder = tmp_path_factory.mktemp("typescript")
    for source in (*(CLIENT / name for name in SOURCES), *PROGRAMS.glob("*.ts")):
        shutil.copy(source, folder)
    (example,) = [block for block in blocks_of(CLIENT / "README.md") if block.language == "ts"]
    (folder / "example.ts").write_text(example.text)
    (folder / "node_modules").symlink_to(installed / "node_modules")
    return folder


@pytest.fixture(scope="module")
async def built(package: Path) -> Path:
    await run(package, "npm", "run", "build")
    return package / "dist"


async def test_types_match_the_document(package: Path, http: httpx.AsyncClient) -> None:
    document = service_document()
    assert (await http.get("/openapi.json")).json() == document
    await run(package, "npm", "run", "generate", given=json.dumps(document))
    assert (package / "schema.d.ts").read_text() == (CLIENT / "schema.d.ts").read_text(), "run `make client`"


async def test_example_works_as_documented(built: Path, service: Service, facade: Facade) -> None:
    """The example is compiled by the strictest rules; mistakes.ts lists mistakes that the types must find."""
    store, product = await facade.open_store(), new_id()
    names = {"http://127.0.0.1:8080": service.address, "Electronics": store, "camera-1": product}
    program = built / "example.js"
    text = re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], program.read_text())
    program.write_text(text)
    assert (await run(built, "node", program.name)).splitlines() == ["4 1", "422 /0/rating less-than-equal"]
    assert await facade.rating(product) == (4, 1)


async def test_example_compiles_in_strict_mode(built: Path) -> None:
    usual = ("--strict", "--noEmit", "--target", "es2022", "--module", "nodenext")
    await run(built.parent, str(built.parent / "node_modules/.bin/tsc"), *usual, "example.ts")


async def test_commands_and_problems_are_handled(built: Path, service: Service, facade: Facade) -> None:
    store, product = await facade.open_store(), new_id()
    png = b64encode(picture()).decode()
    outcomes = json.loads(await run(built, "node", "outcomes.js", service.address, store, product, png))
    unknown, invalid, twice = outcomes.pop("unknown"), outcomes.pop("invalid"), outcomes.pop("twice")
    assert outcomes == {
        **{"apiKeys": ["plaudit-key"], "keys": 1, "attempts": 3},
        **{"unchanged": 304, "givenUp": "AbortError", "badKey": "TypeError 0", "badUrl": "TypeError 1"},
        **{"image": "applied", "images": 1, "isSame": True},
        **{"texts": [True] * 3, "files": ["image/jpeg", "application/zip", True]},
    }
    assert (unknown["status"], unknown["type"]) == (404, "/problems/not-found")
    assert (invalid["status"], invalid["errors"]) == (422, [["/0/review", "blank"], ["/0/rating", "less-than-equal"]])
    assert (twice["status"], twice["reasons"]) == (409, ["status-changed"])
    assert len(await facade.listed(entityIds=[product])) == 2
