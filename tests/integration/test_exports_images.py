"""Images are exported and imported unchanged; foreign files in an export's folder are rebuilt without metadata."""

import asyncio
import json
import subprocess
import sys
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from consumers.images.rebuild import rebuild
from domain.images import SIZES, Rebuilt
from tests.support.facade import Facade, facade_of, new_id, submission
from tests.support.forks import run_forked
from tests.support.hostile_images import EXIF, MARKERS, segment, with_segments
from tests.support.images import IMAGES, Images, opened, picture, shades
from tests.support.service import Json, Servers, Service, running_service
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

PAST: Final = {
    "reviewStatus": "Approved",
    "createdDate": "2023-05-06T07:08:09Z",
    "modifiedDate": "2023-05-06T07:08:09Z",
}


def photograph(seed: int, size: tuple[int, int] = (1_700, 900)) -> bytes:
    """Return a JPEG with the place where it was taken in its metadata."""
    return with_segments(shades(seed, size, quality=95), segment(0xE1, EXIF))


async def rebuilt_file(upload: bytes) -> bytes:
    """Return the file that is built from an upload."""
    result = await rebuild(upload)
    assert isinstance(result, Rebuilt)
    return result.files[0]


def files_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def keep_rows_of(file: Path, product: str) -> dict[str, Json]:
    """Remove all reviews of other objects from an export; returns the remaining ones by id."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [row for row in rows if row.get("entityId") == product]
    write_rows(file, kept)
    return {row["id"]: row for row in kept}


def write_rows(file: Path, rows: list[Json]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows))


async def until_shown(facade: Facade, product: str, images: dict[str, list[str]]) -> None:
    """Wait until these reviews of an object have their images, rebuilt and in this order."""

    async def shown() -> dict[str, list[str]]:
        reviews = [await facade.review(id) for id in images]
        return {each["id"]: [image["id"] for image in each["images"]] for each in reviews}

    await facade.until_listed(product, len(images))
    await eventually(shown, lambda found: found == images, deadline_s=120)


@pytest.mark.slow
async def test_images_survive_import(
    service: Service, facade: Facade, own_service: Service, own_facade: Facade, tmp_path: Path
) -> None:
    await check_round_trip((service, facade), (own_service, own_facade), tmp_path)


@pytest.mark.slow
async def test_images_survive_import_into_bucket(
    service: Service, facade: Facade, servers: Servers, bucket: str, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    async with (
        running_service(servers, tmp_path / "there", PLAUDIT_IMAGES__STORE=bucket) as other,
        facade_of(other) as there,
    ):
        await check_round_trip((service, facade), (other, there), tmp_path)


async def check_round_trip(here_is: tuple[Service, Facade], there_is: tuple[Service, Facade], tmp_path: Path) -> None:
    """Check that an export with images, imported into another service, is the same in an export of that."""
    (service, facade), (own_service, own_facade) = here_is, there_is
    product, person, here, there = new_id(), new_id("person"), Images(facade.http), Images(own_facade.http)
    a, b, c, deleted_image = [await here.upload(photograph(each), userId=person) for each in range(4)]
    approved, new, deleted = await facade.submit(
        submission(product, userId=person, images=[b, a]),
        submission(product, userId=None, images=[c]),
        submission(product, userId=person, images=[deleted_image]),
    )
    await facade.moderate("approve", approved)
    await here.moderate("hide", approved, a)
    await facade.moderate("delete", deleted)
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    beside = [tmp_path / f"{file.name}.images" for file in (first, second)]
    assert f" images to {beside[0]}." in (await service.run("export", "-o", str(first))).stderr
    assert [each.stat().st_mode & 0o077 for each in (first, beside[0])] == [0, 0]
    rows, files = keep_rows_of(first, product), files_in(beside[0])
    assert rows.keys() == {approved, new}
    exported_images = rows[approved]["images"] + rows[new]["images"]
    assert [(each["id"], each["hidden"]) for each in exported_images] == [(b, False), (a, True), (c, False)]
    assert all(each["sha256"] == sha256(files[f"{each['id']}.jpg"]).hexdigest() for each in exported_images)
    assert f"{deleted_image}.jpg" not in files

    output = (await own_service.run("import", str(first))).stdout
    assert "Published 2 reviews; 0 bad rows.\nImages: 3, each" in output
    await until_shown(own_facade, product, {approved: [b, a], new: [c]})
    await own_service.idle()
    await own_service.run("export", "-o", str(second))
    assert second.read_bytes() == first.read_bytes()
    assert files_in(beside[1]) == {name: files[name] for name in (f"{a}.jpg", f"{b}.jpg", f"{c}.jpg")}
    for id, caching in ((b, "public, no-cache"), (a, "private, no-store"), (c, "private, no-store")):
        for size in SIZES:
            seen = await own_facade.http.get(f"{IMAGES}/{id}", params={"size": str(size)})
            assert (seen.status_code, seen.headers["cache-control"]) == (200, caching)
            assert max(opened(seen.content).size) == size
    # The imported image keeps its uploader, even if its review has no author.
    await own_service.run("privacy", "erase", "--customer", person, "--yes")
    assert [await there.status(id) for id in (a, b, c)] == [404, 404, 404]
    await own_service.run("export", "-o", str(second))
    assert not beside[1].exists()


@pytest.mark.long
async def test_own_images_are_kept_and_foreign_ones_rebuilt(service: Service, facade: Facade, tmp_path: Path) -> None:
    product, file = new_id(), tmp_path / "others.jsonl"
    ours = await rebuilt_file(photograph(1))
    assert await rebuilt_file(ours) != ours
    folder = tmp_path / "others.jsonl.images"
    folder.mkdir()
    secret = photograph(2, (60, 40))
    contents = {
        "ours": ours,
        "telling": secret,
        "tail": picture((60, 40), "JPEG") + b"<script>",
        "broken": secret[:400],
        "text": b"<svg onload='alert(1)'/>",
        "other": picture(),
        "missing": b"",
        "link": picture(),
        "large": picture() + bytes(10 * 1024 * 1024),
    }
    ids = {name: str(uuid4()) for name in contents}
    rows = []
    for name, content in contents.items():
        place = folder / f"{ids[name]}.jpg"
        if name == "link":
            (tmp_path / "elsewhere.jpg").write_bytes(content)
            place.symlink_to(tmp_path / "elsewhere.jpg")
        elif name != "missing":
            place.write_bytes(content)
        digest = sha256(b"another" if name == "other" else content).hexdigest()
        image = {"id": ids[name], "hidden": name == "ours", "sha256": digest}
        rows.append(submission(product, id=ids[name], userId=None, images=[image]) | PAST)
    rows.append({**rows[0], "id": new_id("review"), "images": [{**rows[0]["images"][0], "id": "../x"}]})
    write_rows(file, rows)
    assert "Published 5 reviews; 5 bad rows." in (await service.run("import", str(file), code=1)).stdout
    reasons = [json.loads(line) for line in (tmp_path / "others.jsonl.bad-rows.jsonl").open()]
    assert [each["line"] for each in reasons] == [6, 7, 8, 9, 10]
    assert all(each["reason"].startswith("/images") for each in reasons)
    shown = {ids[name]: [ids[name]] for name in ("ours", "telling", "tail")} | {ids["broken"]: [], ids["text"]: []}
    await until_shown(facade, product, shown)
    for name in ("telling", "tail"):
        rebuilt = (await facade.http.get(f"{IMAGES}/{ids[name]}")).content
        assert opened(rebuilt).size == (60, 40)
        assert not [marker for marker in MARKERS if marker in rebuilt]
    kept = await facade.http.get(f"{IMAGES}/{ids['ours']}")
    assert (kept.content, kept.headers["cache-control"]) == (ours, "private, no-store")
    assert "Published 10 reviews; 0 bad rows." in (await service.run("import", str(file), "--no-images")).stdout
    await until_shown(facade, product, shown | {row["id"]: [] for row in rows if row["id"] not in shown})


@pytest.mark.long
async def test_full_disk_leaves_export_unchanged(service: Service, facade: Facade, tmp_path: Path) -> None:
    kind, file = new_id("kind"), tmp_path / "reviews.jsonl"
    folder, images = tmp_path / f"{file.name}.images", Images(facade.http)
    export = ["export", "-o", str(file), "--entity-type", kind]
    for seed, text in enumerate(("Good", "x" * 6_000)):
        image = await images.upload(shades(seed, (60, 40)))
        await facade.submit(submission(new_id(), EntityType=kind, review=text, images=[image]))
        if not seed:
            await service.run(*export)
    before = file.read_bytes(), files_in(folder)
    assert len(before[1]) == 1
    full = ["prlimit", "--fsize=4096", sys.executable, "-m", "plaudit", *export]
    environment = service.command_environment()
    result = await asyncio.to_thread(subprocess.run, full, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.count(f"{file}: File too large")) == (1, 1)
    assert (file.read_bytes(), files_in(folder)) == before
    assert sorted(tmp_path.iterdir()) == [file, folder]


@pytest.mark.long
async def test_export_refuses_unusable_image_folders(service: Service, tmp_path: Path) -> None:
    folder = tmp_path / "reviews.jsonl.images"
    folder.mkdir()
    (folder / "mine.txt").touch()
    stderr = (await service.run("export", "-o", str(tmp_path / "reviews.jsonl"), code=2)).stderr
    assert "mine.txt" in stderr
    await service.run("export", "--no-images", "-o", str(tmp_path / "reviews.jsonl"))
    assert [each.name for each in folder.iterdir()] == ["mine.txt"]
    environment = service.command_environment()
    for command in (("export",), ("privacy", "export", "--customer", "nobody")):
        into_pipe = [sys.executable, "-m", "plaudit", *command, "-o", "/dev/stdout"]
        result = await asyncio.to_thread(subprocess.run, into_pipe, env=environment, capture_output=True, check=False)
        assert result.returncode == 2
        assert "write to standard output instead" in " ".join(result.stderr.decode().split())


@pytest.mark.long
async def test_import_into_another_store_ends_before_its_first_upload(
    service: Service, facade: Facade, tmp_path: Path
) -> None:
    """As with an unmounted volume: no worker would find the images there."""
    file, product, image, review = tmp_path / "reviews.jsonl", new_id(), str(uuid4()), new_id("review")
    await Images(facade.http).upload()
    (tmp_path / "reviews.jsonl.images").mkdir()
    (tmp_path / "reviews.jsonl.images" / f"{image}.jpg").write_bytes(picture())
    images = [{"id": image, "hidden": False, "sha256": sha256(picture()).hexdigest()}]
    write_rows(file, [submission(product, id=review, userId=None, images=images) | PAST])
    environment = {**service.command_environment(), "PLAUDIT_IMAGES__STORE": str(tmp_path / "empty")}
    run = partial(run_forked, "import", str(file), environment=environment, folder=tmp_path, limit_s=300)
    ended = await asyncio.to_thread(run)
    assert (ended.returncode, "isn't mounted" in " ".join(ended.stderr.split())) == (1, True)
    assert not [each for each in (tmp_path / "empty").rglob("*") if each.is_file()]
    assert "Published 1 review;" in (await service.run("import", str(file))).stdout
    await until_shown(facade, product, {review: [image]})
