"""`plaudit doctor` on the image store: real folders, and buckets that can't be used."""

from pathlib import Path

import pytest

from domain.findings import Finding, Level
from plaudit.config import Settings
from plaudit.server_settings import ImageSettings
from plaudit.tools.doctor.images import check_images
from tests.support.s3_strict import strict_s3
from tests.support.waiting import free_port


async def run_check(store: str) -> Finding:
    (finding,) = [each async for each in check_images(Settings(images=ImageSettings(store=store)))]
    assert finding.check == "images"
    return finding


async def test_writable_folder_passes(tmp_path: Path) -> None:
    assert (await run_check(str(tmp_path))).level is Level.OK
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


async def test_missing_folder_is_not_created(tmp_path: Path) -> None:
    finding = await run_check(str(tmp_path / "data" / "images"))
    assert (finding.level, list(tmp_path.iterdir())) == (Level.OK, [])


async def test_unusable_store_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/images"):
        finding = await run_check(str(tmp_path / place))
        assert finding.level is Level.FAIL
        assert "PLAUDIT_IMAGES__STORE" in finding.advice
    assert (await run_check("https://bucket.example")).level is Level.FAIL


async def test_unreachable_bucket_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not shown")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    finding = await run_check("s3://reviews/plaudit")
    assert finding.level is Level.FAIL
    assert "s3://reviews/plaudit can't be used" in finding.text
    assert "not shown" not in finding.text


@pytest.mark.parametrize(("may_list", "level"), [(False, Level.FAIL), (True, Level.OK)])
async def test_bucket_needs_list_permission(monkeypatch: pytest.MonkeyPatch, may_list: bool, level: Level) -> None:
    with strict_s3(monkeypatch, may_list=may_list) as address:
        assert (await run_check(address)).level is level
