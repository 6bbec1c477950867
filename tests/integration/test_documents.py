"""Every command and sample in README and docs, run as it stands there. How they are marked:
tests/support/documents.py.
"""

from __future__ import annotations

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from devservers.kafka_jars import KafkaJars
from domain.entity_types import EntityType
from messaging.topics import Topic
from plaudit.entity_types.schema import REGISTRATIONS
from tests.support.documents import PAGES, ROOT, Block, HttpMessage, Names, blocks_of, json_values
from tests.support.service import Json, Message, Servers, Service, eventually

WALKS: Final = (
    "README.md",
    "docs/http.md",
    "docs/kafka.md",
    "docs/tools.md",
    "docs/operations.md",
)
"""The pages whose blocks are run in their order."""

QUERIES: Final = ("reviewList", "changes", "entityRating", "search")
"""What is asked by POST and changes nothing."""

ONLY_EMBEDDED: Final = {"Starting MongoDB", "Starting Kafka"}
"""What `make up` doesn't say here: it gets the servers of the test run."""

OUT: Final = {Topic.EVENTS, Topic.MAIL_COMMANDS}
PATIENCE_S: Final = 90


@dataclass
class Documented:
    """The service as a reader of the README starts it, on topics and a database of its own."""

    service: Service
    up: Path

    def here(self, text: str) -> str:
        """What a page says, with the addresses, topics and waits of this run."""
        text = re.sub(r"(localhost|127\.0\.0\.1):8080", f"127.0.0.1:{self.service.port}", text)
        text = text.replace("localhost:9092", self.service.servers.kafka)
        text = re.sub(rf"\bplaudit\.(?=({'|'.join(Topic)})\b)", self.service.prefix, text)
        # The machine may be busy with other tests.
        return re.sub(r"wait=\d+", "wait=30", text)

    def environment(self) -> dict[str, str]:
        return {
            **self.service.command_environment(),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PORT": str(self.service.port),
            "DATA": str(self.service.folder / "data"),
            "PLAUDIT_DATA": str(self.service.folder / "data"),
            "KAFKA": self.service.servers.kafka,
            "COLUMNS": "120",
        }


def blocks(name: str) -> list[Block]:
    return [block for block in blocks_of(ROOT / name) if block.is_run_in_order]


def without_comments(text: str) -> list[str]:
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


@pytest.fixture(scope="module")
async def documented(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Documented]:
    if missing := [program for program in ("make", "bash", "curl") if shutil.which(program) is None]:
        pytest.skip(f"the pages use programs that are not there: {', '.join(missing)}")
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
        # As Ctrl-C does it.
        os.killpg(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.wait(), 30)


@dataclass
class Shell:
    """One bash for all commands of a page, so that its variables stay."""

    process: asyncio.subprocess.Process
    folder: Path

    @classmethod
    async def start(cls, documented: Documented, folder: Path) -> Shell:
        with (folder / "stderr").open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *("bash", "--noprofile", "--norc"),
                cwd=folder,
                env=documented.environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=2**22,
            )
        shell = cls(process, folder)
        # A refused request ends the script, as a failed command does; `make` runs where its Makefile is.
        make = f'make() {{ command make --no-print-directory -C "{ROOT}" "$@"; }}'
        await shell.run(f'set -euo pipefail\ncurl() {{ command curl --fail-with-body "$@"; }}\n{make}\n')
        return shell

    async def run(self, text: str) -> str:
        """Run commands; returns what they print. Fails when one of them does."""
        assert self.process.stdin
        assert self.process.stdout
        end = "-- the end of the block --"
        (self.folder / "block.sh").write_text(text)
        self.process.stdin.write(f"source ./block.sh < /dev/null; printf '\\n%s\\n' '{end}'\n".encode())
        await self.process.stdin.drain()
        said: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while (line := (await self.process.stdout.readline()).decode()) != f"{end}\n":
                said.append(line)
                if not line:
                    errors = (self.folder / "stderr").read_text()
                    raise AssertionError(f"a command failed:\n{text}\n{''.join(said)}\n{errors}")
        return "".join(said)

    async def stop(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), 30)


@dataclass
class Walk:
    """A walk through a page: what was shown so far, and what came of it."""

    documented: Documented
    http: httpx.AsyncClient
    shell: Shell
    names: Names = field(default_factory=Names)
    request: HttpMessage | None = None
    printed: str = ""

    async def take(self, block: Block) -> None:
        """Run a block, or compare it with what the one before it did."""
        # In answers the ids stay as they are shown: they are compared by name.
        shown = self.documented.here(block.text)
        text = self.names.in_place(shown)
        if block.language != "http":
            await self.end()
        match block.language, block.words.split():
            case "sh", ["service"]:
                self.printed = self.documented.up.read_text()
            case "sh", _:
                self.printed = await self.shell.run(text)
            case "json", ["output"]:
                self.names.check(json.loads(shown), list(json_values(self.printed))[-1])
            case "text", ["output"]:
                self._check_lines(text)
            case "json", [topic, key]:
                value = json.dumps(json.loads(text)).encode()
                await self.documented.service.publish(topic, Message(self.names.in_place(key), value))
            case "json", [topic]:
                assert Topic(topic) in OUT, "a record to publish needs a key"
                await eventually(lambda: self._is_in(Topic(topic), json.loads(shown)))
            case "http", _:
                await self._http(HttpMessage.of(shown))
            case _:
                raise AssertionError(f"nobody knows how to run {block.language} {block.words}")

    async def end(self) -> None:
        """Send the request whose answer isn't shown, if there is one."""
        request, self.request = self.request, None
        if request:
            response = await self._send(request)
            assert response.is_success, response.text

    async def _http(self, message: HttpMessage) -> None:
        if not message.is_answer:
            await self.end()
            self.request = message
            return
        request, self.request = self.request, None
        assert request, "an answer without a request"
        method, path, _ = request.start
        is_query = method == "GET" or path.endswith(QUERIES)

        async def difference() -> str:
            try:
                self._check(message, await self._send(request))
            except AssertionError as error:
                if not is_query:
                    raise
                return str(error)
            return ""

        await eventually(difference, lambda found: not found)

    async def _send(self, request: HttpMessage) -> httpx.Response:
        method, path, _ = request.start
        body = self.names.in_place(request.body)
        json_body = {"Content-Type": "application/json"} if body else {}
        return await self.http.request(
            method, self.names.in_place(path), content=body or None, headers={**json_body, **request.headers}
        )

    def _check(self, shown: HttpMessage, response: httpx.Response) -> None:
        assert response.status_code == int(shown.start[1]), response.text
        assert response.reason_phrase == " ".join(shown.start[2:])
        for name, value in shown.headers.items():
            assert response.headers.get(name) == value, f"{name}: {response.headers.get(name)}"
        if shown.body:
            try:
                self.names.check(json.loads(shown.body), response.json())
            except AssertionError as error:
                raise AssertionError(f"{error}\n{response.text}") from None

    def _check_lines(self, text: str) -> None:
        shown = [line for line in text.splitlines() if line.strip()]
        printed = self.printed.splitlines()
        missing = [line for line in shown if line not in printed and line not in ONLY_EMBEDDED]
        assert missing == [], self.printed

    async def _is_in(self, topic: Topic, shown: Json) -> bool:
        for value in await self.documented.service.values(topic):
            try:
                self.names.check(shown, value)
            except AssertionError:
                continue
            return True
        return False


async def letters_for_tools(documented: Documented, folder: Path) -> None:
    """What tools.md speaks of: files, and dead letters up to offset 17 of partition 3."""
    (folder / "reviews.csv").write_text(
        "EntityId,EntityType,review,rating\np-1,Product,Good,4\np-2,Product,Bad,1\n",
    )
    (folder / "old-shop.csv").write_text("sku,stars,text\np-3,5,Better\n")
    (folder / "mended.json").write_text(
        json.dumps({"EntityId": "p-4", "EntityType": "Product", "review": "Mended", "rating": 4})
    )
    service = documented.service
    producer = AIOKafkaProducer(bootstrap_servers=service.servers.kafka)
    await producer.start()
    headers = [("x-error-code", b"invalid-json"), ("x-source-topic", service.topic("review-submissions").encode())]
    try:
        topic = service.topic("review-submissions.dlq")
        for _ in range(18):
            await producer.send_and_wait(topic, b"not a review", partition=3, headers=headers)
    finally:
        await producer.stop()


PREPARATIONS: Final[dict[str, Callable[[Documented, Path], Awaitable[None]]]] = {"docs/tools.md": letters_for_tools}


def _marks(page: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if page == "docs/tools.md" else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in WALKS])
async def test_a_walk_through(name: str, documented: Documented, tmp_path: Path) -> None:
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


async def test_the_guide_has_every_endpoint(documented: Documented) -> None:
    guide = (ROOT / "docs" / "http.md").read_text()
    async with documented.service.client() as http:
        document: Json = (await http.get("/openapi.json")).json()
    endpoints = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    # The parameters of a path with any values.
    forms = {each: re.sub(r"\\{\w+\\}", r"[^\\s/?`]+", re.escape(each)) + r"[\s?`]" for each in endpoints}
    assert [each for each, form in forms.items() if not re.search(form, guide)] == []


@pytest.fixture
def block(request: pytest.FixtureRequest) -> Block:
    """The block that names this test."""
    wanted = ("run-by", request.node.originalname)
    (found,) = [block for page in PAGES for block in blocks_of(page) if block.mark == wanted]
    return found


async def run_example(documented: Documented, folder: Path, *command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=documented.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def arrived(documented: Documented, entity_id: str) -> None:
    """Wait for the review of an object that an example publishes."""
    search = {"entityIds": [entity_id], "entityType": "Product"}

    async def found() -> Any:
        async with documented.service.client() as http:
            return (await http.post("/api/customerReviews/reviewList", json=search)).json()["totalCount"]

    assert await eventually(found) == 1


async def test_growth_on_paper(block: Block) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.growth", cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        said, _ = await process.communicate()
    assert block.text.strip() in said.decode()


@pytest.mark.kafka
async def test_the_python_producer(documented: Documented, block: Block, tmp_path: Path) -> None:
    (tmp_path / "submit.py").write_text(documented.here(block.text))
    await run_example(documented, tmp_path, sys.executable, "submit.py")
    await arrived(documented, "lens-1")


@pytest.mark.kafka
async def test_the_java_producer(documented: Documented, block: Block, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK (`apt-get install openjdk-17-jdk-headless`)")
    jars = KafkaJars()
    if not jars.cached:
        pytest.skip("the jars of Apache Kafka are not there: no embedded server has fetched them yet")
    (tmp_path / "Submit.java").write_text(documented.here(block.text))
    # Compiles and runs it in one go.
    await run_example(documented, tmp_path, "java", "-XX:TieredStopAtLevel=1", "-cp", jars.class_path, "Submit.java")
    await arrived(documented, "lens-2")


@pytest.mark.kafka
async def test_the_kcat_producer(documented: Documented, block: Block, tmp_path: Path) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("there is no `kcat` (`apt-get install kcat`)")
    await run_example(documented, tmp_path, "bash", "-euo", "pipefail", "-c", documented.here(block.text))
    await arrived(documented, "lens-3")


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
