"""Child processes that rebuild images, and the rebuilt files."""

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from consumers.images import child as images_child
from consumers.images import rebuild as images_rebuild
from consumers.images.rebuild import rebuild, start_child
from domain.images import Rebuilt, UploadRefusal
from tests.support.hostile_images import segment, with_segments
from tests.support.images import picture

_BESIDE_THREADS = """
import asyncio, ctypes, os, subprocess, threading
import uvloop
from consumers.images.rebuild import start_child

# Threads that aren't Python's own take the interpreter's locks as they come and go.
libc = ctypes.CDLL(None)
nothing = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: None)

def come_and_go():
    while True:
        threads = [ctypes.c_ulong() for _ in range(16)]
        for thread in threads:
            libc.pthread_create(ctypes.byref(thread), None, nothing, None)
        for thread in threads:
            libc.pthread_join(thread, None)

async def main():
    for _ in range(2):
        threading.Thread(target=come_and_go, daemon=True).start()
    for _ in range(400):
        child = start_child(("/bin/true",))
        await asyncio.to_thread(child.communicate)
        assert child.returncode == 0
    print("all ended", flush=True)
    os._exit(0)

uvloop.run(main())
"""

_ENDLESS = """
import os, sys
from consumers.images.child import limit

limit(int(sys.argv[1]), int(sys.argv[2]))
os.write(1, b"begun\\n")
while True:
    pass
"""


_HUNGRY = """
import os, sys
from consumers.images.child import limit

limit(int(sys.argv[1]), int(sys.argv[2]))
os.write(1, b"begun\\n")
bytearray(int(sys.argv[1]))
os.write(1, b'{"refused": "image-unreadable"}\\n')
"""


@pytest.mark.long
def test_children_start_while_threads_come_and_go() -> None:
    # Started by uvloop, one child in a hundred hangs here, and blocks the event loop.
    process = subprocess.Popen(
        [sys.executable, "-c", _BESIDE_THREADS], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.communicate(timeout=300)[0] == "all ended\n"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.wait()


async def test_rebuild_is_retried_until_a_child_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    monkeypatch.setattr(images_rebuild, "_CHILD", script)
    tries = 0

    def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError(errno.EAGAIN, "too many processes")
        if tries == 3:
            script.write_text(Path(images_child.__file__).read_text())
        return start_child(command)  # exits at once while its script is missing

    monkeypatch.setattr(images_rebuild, "start_child", start)
    assert isinstance(await asyncio.wait_for(rebuild(picture()), 300), Rebuilt)
    assert tries == 3


async def test_rebuild_is_retried_after_a_frozen_child(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
        nonlocal tries
        tries += 1
        is_first = tries == 1
        monkeypatch.setattr(images_rebuild, "PATIENCE_S", 0.5 if is_first else 300)
        return start_child(("/bin/sh", "-c", "echo begun; exec tail -f /dev/null") if is_first else command)

    monkeypatch.setattr(images_rebuild, "start_child", start)
    assert isinstance(await asyncio.wait_for(rebuild(picture()), 600), Rebuilt)
    assert tries == 2


async def test_crashed_child_refuses_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text("import os, sys\nos.write(1, b'begun\\n')\nsys.stdin.buffer.read()\nos.abort()\n")
    monkeypatch.setattr(images_rebuild, "_CHILD", script)
    assert await asyncio.wait_for(rebuild(picture()), 300) is UploadRefusal.TOO_COSTLY


async def test_file_that_takes_too_much_cpu_time_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script, starts = tmp_path / "child.py", []
    script.write_text(_ENDLESS)

    def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
        starts.append(command)
        return start_child(command)

    monkeypatch.setattr(images_rebuild, "_CHILD", script)
    monkeypatch.setattr(images_rebuild, "SECONDS", 1)
    monkeypatch.setattr(images_rebuild, "PATIENCE_S", 300)
    monkeypatch.setattr(images_rebuild, "start_child", start)
    assert await asyncio.wait_for(rebuild(picture()), 600) is UploadRefusal.TOO_COSTLY
    assert len(starts) == 1


async def test_file_that_takes_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(_HUNGRY)
    monkeypatch.setattr(images_rebuild, "_CHILD", script)
    assert await asyncio.wait_for(rebuild(picture()), 300) is UploadRefusal.TOO_COSTLY


async def test_jpeg_with_too_many_scans_is_refused() -> None:
    """Scans in other pictures of the file don't count: cameras add previews, and films behind the photograph."""
    photograph = picture((40, 30), "JPEG", progressive=True)
    last = photograph[photograph.rindex(b"\xff\xda") : -2]
    costly = photograph[:-2] + 100 * last + photograph[-2:]
    assert await rebuild(costly) is UploadRefusal.TOO_COSTLY
    restarting = picture((40, 30), "JPEG", progressive=True, restart_marker_rows=1)
    last = restarting[restarting.rindex(b"\xff\xda") : -2].replace(b"\xff\xd0", b"\xff\x02\xff\xff\xff\xd0", 1)
    assert b"\xff\x02" in last  # decoders skip it without a length
    assert await rebuild(restarting[:-2] + 100 * last + restarting[-2:]) is UploadRefusal.TOO_COSTLY
    for other in (photograph + costly, with_segments(photograph, segment(0xE1, costly))):
        assert isinstance(await rebuild(other), Rebuilt)


def png(image: Image.Image, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue()


async def greys_of(file: bytes) -> list[int]:
    """The grey values of the middle row of pixels after the image was rebuilt in size 320."""
    rebuilt = await rebuild(file)
    assert isinstance(rebuilt, Rebuilt)
    image = Image.open(BytesIO(rebuilt.files[1])).convert("L")
    return [int(grey) for grey in image.crop((0, image.height // 2, image.width, image.height // 2 + 1)).tobytes()]


async def test_16_bit_images_are_scaled_to_8_bits() -> None:
    shades = Image.frombytes("I;16", (256, 20), b"".join(bytes([128, grey]) for grey in range(256)) * 20)
    greys = await greys_of(png(shades))
    assert all(abs(grey - place) < 8 for place, grey in enumerate(greys))


@pytest.mark.parametrize("options", [{}, {"transparency": 2}])
@pytest.mark.parametrize("mode", ["1", "P"])
async def test_thin_lines_of_palette_images_survive_downscaling(mode: str, options: dict[str, Any]) -> None:
    lines = Image.frombytes("L", (3_200, 20), bytes([*[0, 255] * 3, *[255] * 94]) * 32 * 20)
    greys = await greys_of(png(lines.convert(mode), **options))
    assert sum(grey < 240 for grey in greys) >= 32
