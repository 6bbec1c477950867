"""Fixtures: a real S3 server for the image store."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import httpx
import pytest

from tests.support.waiting import eventually, free_port

GATEWAY: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_BUILD_S: Final = 600


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An S3 server, built from source."""
    if found := shutil.which("versitygw"):
        return Path(found)
    if not (go := shutil.which("go")):
        pytest.skip("needs Go to build the S3 server")
    folder = tmp_path_factory.mktemp("go")
    command, environment = [go, "install", GATEWAY], {**os.environ, "GOBIN": str(folder)}
    try:
        built = subprocess.run(command, env=environment, capture_output=True, timeout=_BUILD_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"building the S3 server took more than {_BUILD_S} s: Go's proxy may be slow or unavailable")
    if built.returncode:
        pytest.skip(f"the S3 server can't be built: {built.stderr.decode()[-300:]}")
    return folder / "versitygw"


@pytest.fixture
async def bucket(gateway: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A bucket of a running S3 server."""
    (tmp_path / "s3" / "reviews").mkdir(parents=True)
    port = free_port()
    secret = {"access": "plaudit", "secret": uuid4().hex}
    options = [f"--{name}={value}" for name, value in secret.items()]
    (tmp_path / "meta").mkdir()
    server = await asyncio.create_subprocess_exec(
        str(gateway),
        *options,
        f"--port=127.0.0.1:{port}",
        *("posix", "--sidecar", str(tmp_path / "meta"), str(tmp_path / "s3")),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    for name, value in {
        "AWS_ACCESS_KEY_ID": secret["access"],
        "AWS_SECRET_ACCESS_KEY": secret["secret"],
        "AWS_ENDPOINT_URL": address,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)

    async def answers() -> bool:
        try:
            async with httpx.AsyncClient() as http:
                return (await http.get(address)).status_code > 0
        except httpx.TransportError:
            return False

    await eventually(answers)
    yield "s3://reviews/plaudit"
    server.terminate()
    await server.wait()
