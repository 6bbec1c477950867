"""Rebuild uploads in child processes, each with its own limits."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import structlog

from consumers.images import child as images_child
from consumers.images.child import BEGUN
from domain.images import MAX_PIXELS, SIZES, Rebuilt, UploadRefusal

log = structlog.get_logger()

MEMORY_BYTES: Final = 400_000_000
"""Bytes of a child's address space, so that it never holds more; 25 megapixels take 350 MB at most."""

SECONDS: Final = 15
"""Seconds of CPU time of a child. A photograph takes one or two."""

PATIENCE_S: Final = 45.0
"""Seconds that a child may take on a machine with other load: five in a row take less than four minutes."""

_MOST_KILLED: Final = 2
"""Killed or timed-out children after which an image is refused. One isn't enough: the system may have run out of
memory, or the machine may have been suspended."""

_SHORTEST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 5.0

_CHILD: Final = Path(images_child.__file__)
_LONGEST_HEAD: Final = 1_024


class NoChildError(Exception):
    """No child process starts: the system lacks resources, or the installation is broken. The image is not to blame."""


async def rebuild(raw: bytes, *, is_exported: bool = False) -> Rebuilt | UploadRefusal:
    """Rebuild the image in an upload from its pixels, or return the reason for refusing it. With `is_exported`, a file
    written by this service is kept unchanged. Retries for as long as no child process starts."""
    pause = _SHORTEST_PAUSE_S
    killed = 0
    while killed < _MOST_KILLED:
        try:
            if result := await run_child(raw, is_exported=is_exported):
                return result
            killed += 1
        except NoChildError as error:
            log.warning("retrying: no child process starts to rebuild an image", error=str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
    return UploadRefusal.TOO_COSTLY


async def run_child(raw: bytes, *, is_exported: bool = False) -> Rebuilt | UploadRefusal | None:
    """Run a child on an upload; None if it was killed or took longer than PATIENCE_S. Raises NoChildError."""
    heic = "heic" if find_spec("pillow_heif") else "no"
    kept = "ours" if is_exported else "none"
    arguments = [f"{each}" for each in (MEMORY_BYTES, SECONDS, MAX_PIXELS, heic, kept, *SIZES)]
    try:
        child = start_child((sys.executable, "-I", str(_CHILD), *arguments))
    except OSError as error:
        raise NoChildError(str(error)) from error
    try:
        out = await asyncio.to_thread(_communicate, child, raw)
    except subprocess.TimeoutExpired as late:
        if not (late.output or b"").startswith(BEGUN):
            raise NoChildError(f"no answer within {PATIENCE_S} s") from late
        log.warning("an image took too long to rebuild", bytes=len(raw))
        return None
    finally:
        child.kill()  # in case of cancellation; no effect on a process that has ended
    if not out.startswith(BEGUN):
        raise NoChildError(f"exit code {child.returncode}")
    if child.returncode == -signal.SIGKILL:
        return None
    return _parse_answer(out.removeprefix(BEGUN)) if child.returncode == 0 else UploadRefusal.TOO_COSTLY


def start_child(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a child process without running Python between fork and exec.

    uvloop's own way runs Python there, where interpreter locks may be held by threads that don't exist in the child:
    the child would hang, and with it the event loop, which waits for it to start.
    """
    return subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        # Signals to our process group, such as Ctrl-C, must not reach it: its image would be refused.
        start_new_session=True,
    )


def _communicate(child: subprocess.Popen[bytes], raw: bytes) -> bytes:
    with child:
        try:
            return child.communicate(raw, PATIENCE_S)[0]
        finally:
            child.kill()


def _parse_answer(out: bytes) -> Rebuilt | UploadRefusal:
    head, _, files = out.partition(b"\n")
    answer = json.loads(head[:_LONGEST_HEAD])
    if refused := answer.get("refused"):
        return UploadRefusal(refused)
    made, at = [], 0
    for size in answer["sizes"]:
        made.append(files[at : at + size])
        at += size
    return Rebuilt(answer["width"], answer["height"], made)
