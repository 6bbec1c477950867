"""Rebuild uploads in child processes, each with limits of its own."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import structlog

from consumers import images_child
from consumers.images_child import BEGUN
from domain.images import MAX_PIXELS, SIZES, Rebuilt, UploadRefusal

log = structlog.get_logger()

MEMORY_BYTES: Final = 400_000_000
"""Of the child's addresses, so that it never holds more; 25 megapixels take 350 MB at most."""

SECONDS: Final = 15
"""Of computing. A photograph takes one or two."""

PATIENCE_S: Final = 45.0
"""In all, on a machine that has other work: five in a row take less than four minutes."""

_KILLED_AGAIN: Final = 2
"""A child that was killed may have been so by a system without memory, and one that wasn't done may have been frozen
with its machine, for no fault of their own: they are repeated."""

_SHORTEST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0

_CHILD: Final = Path(images_child.__file__)
_LONGEST_HEAD: Final = 1_024


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a child, and the most memory that it held (KiB; 0 where it didn't live to tell)."""

    result: Rebuilt | UploadRefusal
    peak: int = 0


class NoChildError(Exception):
    """No child process begins: the system has no room for one, or the installation is broken. No image is to blame."""


async def rebuild(raw: bytes, *, is_exported: bool = False) -> Rebuilt | UploadRefusal:
    """The image in an upload, rebuilt from its pixels, or why there is none. One that was exported is kept as it is
    where it is one of our own files. Waits for as long as no child process begins."""
    pause = _SHORTEST_PAUSE_S
    killed = 0
    while killed < _KILLED_AGAIN:
        try:
            if answer := await run_child(raw, is_exported=is_exported):
                return answer.result
            killed += 1
        except NoChildError as error:
            log.warning("retrying: no child process to rebuild an image begins", error=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
    return UploadRefusal.TOO_COSTLY


async def run_child(raw: bytes, *, is_exported: bool = False) -> Answer | None:
    """Run a child on an upload; None where it was killed, or not done within PATIENCE_S. Raises NoChildError."""
    heic = "heic" if find_spec("pillow_heif") else "no"
    kept = "ours" if is_exported else "none"
    arguments = [f"{each}" for each in (MEMORY_BYTES, SECONDS, MAX_PIXELS, heic, kept, *SIZES)]
    try:
        child = started((sys.executable, "-I", str(_CHILD), *arguments))
    except OSError as error:
        raise NoChildError(str(error)) from error
    try:
        out = await asyncio.to_thread(_answer_of, child, raw)
    except subprocess.TimeoutExpired as late:
        if not (late.output or b"").startswith(BEGUN):
            raise NoChildError(f"nothing within {PATIENCE_S:g} s") from late
        log.warning("an image took too long to rebuild", bytes=len(raw))
        return None
    finally:
        child.kill()  # if we were cancelled; it does nothing to one that has ended
    if not out.startswith(BEGUN):
        raise NoChildError(f"it ended with exit code {child.returncode}")
    if child.returncode == -signal.SIGKILL:
        return None
    return _read(out.removeprefix(BEGUN)) if child.returncode == 0 else Answer(UploadRefusal.TOO_COSTLY)


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """A child process, started without running Python in it.

    uvloop's own way does so between fork and exec, where the interpreter's locks may be held by threads that aren't
    there any more: the child hangs then, and the event loop with it, which waits for it to begin.
    """
    return subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        # Signals to our group, such as Ctrl-C, aren't for it: what it rebuilds would be refused.
        start_new_session=True,
    )


def _answer_of(child: subprocess.Popen[bytes], raw: bytes) -> bytes:
    with child:
        try:
            return child.communicate(raw, PATIENCE_S)[0]
        finally:
            child.kill()


def _read(out: bytes) -> Answer:
    head, _, files = out.partition(b"\n")
    told = json.loads(head[:_LONGEST_HEAD])
    if refused := told.get("refused"):
        return Answer(UploadRefusal(refused), told["peak"])
    made, at = [], 0
    for size in told["sizes"]:
        made.append(files[at : at + size])
        at += size
    return Answer(Rebuilt(told["width"], told["height"], made), told["peak"])
