"""A walk through a documentation page: each block is run as it is, or compared with the result of the previous one."""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from messaging.topics import Topic
from tests.support.documents import ROOT, Block, HttpMessage, Names, json_values
from tests.support.messages import Message
from tests.support.service import Json, Service
from tests.support.waiting import eventually

QUERIES: Final = ("reviewList", "changes", "entityRating", "search")
"""Endpoints of queries by POST, which change nothing."""


ONLY_EMBEDDED: Final = ("Starting MongoDB", "Starting Kafka", "Every user of this machine can read and write Kafka.")
"""Beginnings of lines that `make up` doesn't print here, because it uses the servers of the test run."""

_PLACES: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1"),
    (re.compile(r"Kafka \S+   MongoDB \S+   database \S+"), "Kafka, MongoDB, database"),
    (re.compile(r"\S+/(?=endpoints\.json|logs\b)"), ""),
)
"""Parts of the output of `plaudit up` that differ between runs."""


OUT: Final = {Topic.EVENTS, Topic.MAIL_COMMANDS}
"""Topics that the service publishes to."""


PATIENCE_S: Final = 300


def comparable_lines(output: str) -> list[str]:
    """The lines of an output of `plaudit up`, without its addresses, its database and its folder."""
    for place, without in _PLACES:
        output = place.sub(without, output)
    return [line for line in output.splitlines() if line.strip()]


@dataclass
class Documented:
    """The service as a reader of the README starts it, with its own topics and database."""

    service: Service
    up: Path

    def here(self, text: str) -> str:
        """The text of a page with the addresses, topics and waits of this run."""
        text = re.sub(r"(localhost|127\.0\.0\.1):8080", f"127.0.0.1:{self.service.port}", text)
        text = text.replace("localhost:9092", self.service.servers.kafka)
        text = re.sub(rf"\bplaudit\.(?=({'|'.join(Topic)})\b)", self.service.prefix, text)
        # A longer wait, for a busy machine.
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


@dataclass
class Shell:
    """One bash for all commands of a page, so that variables persist."""

    process: asyncio.subprocess.Process
    folder: Path

    @classmethod
    async def start(cls, documented: Documented, folder: Path) -> "Shell":
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
        # An HTTP error ends the script like any failed command; `make` runs in the folder of the Makefile.
        make = f'make() {{ command make --no-print-directory -C "{ROOT}" "$@"; }}'
        await shell.run(f'set -euo pipefail\ncurl() {{ command curl --fail-with-body "$@"; }}\n{make}\n')
        return shell

    async def run(self, text: str) -> str:
        """Run commands. Returns their output; raises AssertionError if one fails."""
        assert self.process.stdin
        assert self.process.stdout
        end = "-- the end of the block --"
        (self.folder / "block.sh").write_text(text)
        self.process.stdin.write(f"source ./block.sh < /dev/null; printf '\\n%s\\n' '{end}'\n".encode())
        await self.process.stdin.drain()
        lines: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while (line := (await self.process.stdout.readline()).decode()) != f"{end}\n":
                lines.append(line)
                if not line:
                    errors = (self.folder / "stderr").read_text()
                    raise AssertionError(f"a command failed:\n{text}\n{''.join(lines)}\n{errors}")
        return "".join(lines)

    async def stop(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), PATIENCE_S)


@dataclass
class Walk:
    """A walk through a page, with the pending request and the last output."""

    documented: Documented
    http: httpx.AsyncClient
    shell: Shell
    names: Names = field(default_factory=Names)
    request: HttpMessage | None = None
    printed: str = ""

    async def take(self, block: Block) -> None:
        """Run a block, or compare it with the result of the previous one."""
        # Ids in responses stay as shown: they are compared by name.
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
                raise AssertionError(f"no way to run a block of {block.language} {block.words}")

    async def end(self) -> None:
        """Send the pending request, whose response isn't shown, if there is one."""
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
        assert request, "a response without a request"
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
        printed = comparable_lines(self.printed)
        shown = [line for line in comparable_lines(text) if not line.startswith(ONLY_EMBEDDED)]
        missing = [line for line in shown if line not in printed]
        assert missing == [], self.printed

    async def _is_in(self, topic: Topic, shown: Json) -> bool:
        for value in await self.documented.service.values(topic):
            try:
                self.names.check(shown, value)
            except AssertionError:
                continue
            return True
        return False
