"""`plaudit up` as a process, for tests of everything it starts."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.processes import Marked
from tests.support.waiting import eventually, free_port


class Up:
    """`plaudit up` in a folder, without any configured server."""

    def __init__(self, folder: Path, marked: Marked, broker: str, **environment: str) -> None:
        self.folder, self.marked = folder, marked
        self.endpoints = folder / "data" / "endpoints.json"
        self.log = folder / "up.log"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PLAUDIT_")},
            **marked.environment,
            "PLAUDIT_DATA": str(folder / "data"),
            "PLAUDIT_HTTP__PORT": str(free_port()),
            "PLAUDIT_BROKER": broker,
            **environment,
        }

    def start(self) -> subprocess.Popen[bytes]:
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "plaudit", "up"],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @asynccontextmanager
    async def started(self) -> AsyncIterator[subprocess.Popen[bytes]]:
        """Start it; kill it after the block if it still runs."""
        process = await asyncio.to_thread(self.start)
        try:
            yield process
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)

    async def says(self, process: subprocess.Popen[bytes], text: str) -> None:
        """Wait until its output contains this text."""

        def has_text() -> bool:
            log = self.log.read_text()
            assert process.poll() is None, log
            return text in log

        await eventually(has_text)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command with the same environment."""
        return subprocess.run(
            [sys.executable, "-m", "plaudit", *command],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    async def nothing_is_left(self) -> None:
        """Wait until none of its processes lives."""
        await self.marked.gone()
