"""Run every command and sample of the README and the docs as written. Their marks: tests/support/documents.py."""

import ast
import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer

from devservers.kafka_jars import KafkaJars
from domain.entity_types import EntityType
from plaudit.entity_types.schema import REGISTRATIONS
from tests.support.documents import PAGES, ROOT, Block, blocks_of
from tests.support.facade import facade_of, submission
from tests.support.service import Json, Servers, Service
from tests.support.waiting import eventually
from tests.support.walks import PATIENCE_S, Documented, Shell, Walk

WALKS: Final = ("README.md", *(f"docs/{name}.md" for name in ("http", "kafka", "tools", "operations")))
"""Pages whose blocks are run in order."""


def blocks(name: str) -> list[Block]:
    return [block for block in blocks_of(ROOT / name) if block.is_run_in_order]


def without_comments(text: str) -> list[str]:
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


@pytest.fixture(scope="module")
async def documented(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Documented]:
    if missing := [program for program in ("make", "bash", "curl") if shutil.which(program) is None]:
        pytest.skip(f"the pages use missing programs: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("documents")
    documented = Documented(Service(servers, folder), folder / "up.log")
    (command,) = [block for block in blocks("README.md") if block.words == "service"]
    assert without_comments(command.text) == ["make up"]
    with documented.up.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("make", "--no-print-directory", "up"),
            cwd=ROOT,
            env=documented.environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:

        async def ready() -> bool:
            assert process.returncode is None, documented.up.read_text()
            return "Ctrl-C stops everything" in documented.up.read_text()

        await eventually(ready, deadline_s=PATIENCE_S)
        yield documented
    finally:
        # Like Ctrl-C.
        os.killpg(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.wait(), PATIENCE_S)


async def letters_for_tools(documented: Documented, folder: Path) -> None:
    """Create the files and dead letters that tools.md mentions, the latter up to offset 17 of partition 3."""
    reviews = "EntityId,EntityType,review,rating\np-1,Product,Good,4\np-2,Product,Bad,1\n"
    (folder / "reviews.csv").write_text(reviews)
    (folder / "old-shop.csv").write_text("sku,stars,text\np-3,5,Better\n")
    (folder / "mended.json").write_text(json.dumps(submission("p-4")))
    topic = documented.service.topic("review-submissions")
    headers = [("x-error-code", b"invalid-json"), ("x-source-topic", topic.encode())]
    async with AIOKafkaProducer(bootstrap_servers=documented.service.servers.kafka) as producer:
        for _ in range(18):
            await producer.send_and_wait(f"{topic}.dlq", b"not a review", partition=3, headers=headers)


PREPARATIONS: Final[dict[str, Callable[[Documented, Path], Awaitable[None]]]] = {"docs/tools.md": letters_for_tools}


def _marks(page: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if page == "docs/tools.md" else []


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in WALKS])
async def test_pages_can_be_followed(name: str, documented: Documented, tmp_path: Path) -> None:
    if name in PREPARATIONS:
        if documented.service.servers.is_tansu:
            pytest.skip("the tools for dead letters need Apache Kafka")
        await PREPARATIONS[name](documented, tmp_path)
    shell = await Shell.start(documented, tmp_path)
    try:
        async with documented.service.client() as http:
            walk = Walk(documented, http, shell)
            for block in blocks(name):
                try:
                    await walk.take(block)
                except AssertionError as error:
                    raise AssertionError(f"{block.place}: {error}") from error
            await walk.end()
    finally:
        await shell.stop()


@pytest.mark.long
async def test_http_guide_covers_every_endpoint(documented: Documented) -> None:
    guide = (ROOT / "docs" / "http.md").read_text()
    async with documented.service.client() as http:
        document: Json = (await http.get("/openapi.json")).json()
    endpoints = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    # Placeholders of a path match any value.
    forms = {each: re.sub(r"\\{\w+\\}", r"[^\\s/?`]+", re.escape(each)) + r"[\s?`]" for each in endpoints}
    assert [each for each, form in forms.items() if not re.search(form, guide)] == []


@pytest.fixture
def block(request: pytest.FixtureRequest) -> Block:
    """The block that names this test."""
    wanted = ("run-by", request.node.originalname)
    (found,) = [block for page in PAGES for block in blocks_of(page) if block.mark == wanted]
    return found


async def run(*command: str, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a command, which must succeed; returns its output."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(PATIENCE_S):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def publish_by_example(documented: Documented, folder: Path, entity_id: str, *command: str) -> None:
    """Run an example, and wait until the review that it publishes is listed."""
    await run(*command, folder=folder, environment=documented.environment())
    async with facade_of(documented.service) as facade:
        await facade.until_listed(entity_id, 1)


@pytest.mark.long
async def test_growth_on_paper(block: Block) -> None:
    assert block.text.strip() in await run(sys.executable, "-m", "benchmarks.growth", folder=ROOT)


@pytest.mark.long
@pytest.mark.kafka
async def test_the_python_producer(documented: Documented, block: Block, tmp_path: Path) -> None:
    (tmp_path / "submit.py").write_text(documented.here(block.text))
    await publish_by_example(documented, tmp_path, "lens-1", sys.executable, "submit.py")


@pytest.mark.long
@pytest.mark.kafka
async def test_the_java_producer(documented: Documented, block: Block, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK (`apt-get install openjdk-17-jdk-headless`)")
    jars = KafkaJars()
    if not jars.cached:
        pytest.skip("the jars of Apache Kafka are missing: no embedded server has fetched them yet")
    (tmp_path / "Submit.java").write_text(documented.here(block.text))
    # Compiles and runs it.
    command = ("java", "-XX:TieredStopAtLevel=1", "-cp", jars.class_path, "Submit.java")
    await publish_by_example(documented, tmp_path, "lens-2", *command)


@pytest.mark.long
@pytest.mark.kafka
async def test_the_kcat_producer(documented: Documented, block: Block, tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("there is no `kcat` (`apt-get install kcat`)")
    command = ("bash", "-euo", "pipefail", "-c", documented.here(block.text))
    await publish_by_example(documented, tmp_path, "lens-3", *command)


def test_the_configured_types(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "catalog.py").write_text("def names(ids):\n    return {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    registrations = REGISTRATIONS.validate_json(block.text)
    assert [registration.entity_type for registration in registrations] == ["Vendor", "Product"]


def test_the_names_function(block: Block) -> None:
    (function,) = ast.parse(block.text).body
    assert isinstance(function, ast.FunctionDef)
    assert function.name == "names"


def test_the_entry_point(block: Block) -> None:
    points: Json = tomllib.loads(block.text)["project"]["entry-points"]["plaudit.entity_types"]
    assert points == {"vendors": "vendors_plaudit:TYPES"}


async def test_the_types_of_a_package(block: Block) -> None:
    async def vendor_names(ids: list[str]) -> list[tuple[str, str]]:
        return [(id, "Camera House") for id in ids]

    found: dict[str, Any] = {"vendor_names": vendor_names}
    exec(block.text, found)  # noqa: S102 - our own page
    (vendor,) = found["TYPES"]
    assert isinstance(vendor, EntityType)
    assert vendor.get_entity
    resolved = vendor.get_entity(["v-1"])
    assert isinstance(resolved, Awaitable)
    assert (await resolved)["v-1"].name == "Camera House"
