"""The storefront's static files: small, typed, equally translated, and readable from every origin."""

import gzip
import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from starlette.applications import Starlette

from storefront.static_files import FOLDER, routes, static_file
from tests.support.npm import npm_installed

CLIENT: Final = Path(__file__).parents[2] / "clients" / "typescript"
LANGUAGES: Final = ["ar", "de", "en", "es", "fr", "nl"]
SHOWN_AT_ONCE: Final = ("plaudit-reviews.js", "plaudit-stars.js")


def packed(name: str) -> int:
    return len(static_file(FOLDER / name).compressed)


def test_widget_is_small() -> None:
    assert packed("plaudit-stars.js") <= 2_048
    assert sum(map(packed, SHOWN_AT_ONCE)) <= 8 * 1_024
    # Loaded when a visitor opens them.
    assert packed("plaudit-form.js") + packed("plaudit-dialogs.js") <= 6 * 1_024
    text = static_file(FOLDER / "plaudit-reviews.js").body.decode()
    assert re.findall(r"^import .* from '(.*)\?v=\w+';$", text, re.MULTILINE) == ["./plaudit-stars.js"]


def test_modules_lose_only_their_comments() -> None:
    for path in FOLDER.glob("*.js"):
        source, sent = path.read_text(), static_file(path).body.decode()
        without = re.sub(r"/\*\*.*?\*/\s*", "", source, flags=re.DOTALL)
        assert re.sub(r"\?v=\w+", "", sent).split() == without.split(), path.name


def shape(words: dict[str, Any]) -> dict[str, set[str]]:
    """The placeholders in the text of each key, over all plural forms."""
    return {
        key: set(re.findall(r"{(\w+)}", " ".join(text.values()) if isinstance(text, dict) else text))
        for key, text in words.items()
    }


def test_languages_have_the_same_keys_and_placeholders() -> None:
    words = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("languages/*.json")}
    assert sorted(words) == LANGUAGES
    for language, found in words.items():
        assert list(found) == list(words["en"]), language
        assert shape(found) == shape(words["en"]), language
        assert all("other" in text for text in found.values() if isinstance(text, dict)), language
    named = re.findall(r"^  (\w\w): \[", (FOLDER / "plaudit-stars.js").read_text(), re.MULTILINE)
    assert sorted(named) == LANGUAGES


def test_every_text_is_used() -> None:
    source = "".join(path.read_text() for path in FOLDER.glob("*.js"))
    keys = json.loads((FOLDER / "languages" / "en.json").read_text())
    built = ("missing.", "status.", "reason.", "refused.")
    assert [key for key in keys if not key.startswith(built) and f"'{key}'" not in source] == []
    assert [start for start in built if start not in source] == []


async def test_every_origin_may_read_them() -> None:
    transport = httpx.ASGITransport(app=Starlette(routes=list(routes())))
    async with httpx.AsyncClient(transport=transport, base_url="https://reviews.test") as http:
        for path, kind in (("plaudit-reviews.js", "text/javascript"), ("languages/ar.json", "application/json")):
            answer = await http.get(f"/storefront/v1/{path}", headers={"accept-encoding": "gzip"})
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(kind)
            assert answer.headers["content-encoding"] == "gzip"
            assert answer.headers["access-control-allow-origin"] == "*"
            assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
            assert "max-age" in answer.headers["cache-control"]
            again = await http.get(f"/storefront/v1/{path}", headers={"if-none-match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            plain = await http.get(f"/storefront/v1/{path}", headers={"accept-encoding": "identity"})
            assert plain.content == answer.content
            assert plain.headers["etag"] != answer.headers["etag"]
        assert (await http.get("/storefront/v1/types.d.ts")).status_code == 404
        assert (await http.get("/storefront/v1/languages/../app.py")).status_code == 404


async def test_modules_import_the_matching_versions() -> None:
    """A browser may have other versions in its cache."""
    transport = httpx.ASGITransport(app=Starlette(routes=list(routes())))
    async with httpx.AsyncClient(transport=transport, base_url="https://reviews.test/storefront/v1/") as http:
        named = {
            found
            for path in FOLDER.glob("*.js")
            for found in re.findall(r"'\./(plaudit-[^']*)'", static_file(path).body.decode())
        }
        assert {name.partition("?v=")[0] for name in named} == {
            f"plaudit-{name}.js" for name in ("stars", "form", "dialogs")
        }
        for name in named:
            path, _, version = name.partition("?v=")
            answer = await http.get(name)
            assert answer.headers["etag"].startswith(f'"{version}')
            assert "immutable" in answer.headers["cache-control"]
            for other, caching in (("?v=0", "no-store"), ("", "public, max-age=300, stale-while-revalidate=86400")):
                another = await http.get(f"{path}{other}")
                assert (another.content, another.headers["cache-control"]) == (answer.content, caching)


async def test_words_match_the_version_of_the_script() -> None:
    """A browser may have another version's words in its cache, which lack texts of this script."""
    transport = httpx.ASGITransport(app=Starlette(routes=list(routes())))
    script = static_file(FOLDER / "plaudit-reviews.js").body.decode()
    (version,) = re.findall(r"`languages/\$\{.*\}\.json\?v=(\w{8})`", script)
    async with httpx.AsyncClient(transport=transport, base_url="https://reviews.test/storefront/v1/languages/") as http:
        for language in LANGUAGES:
            for query, caching in ((f"?v={version}", "immutable"), ("?v=0", "no-store"), ("", "max-age=300")):
                answer = await http.get(f"{language}.json{query}")
                assert caching in answer.headers["cache-control"], query
                assert answer.json()["title"]


def test_gzip_body_matches() -> None:
    file = static_file(FOLDER / "plaudit-form.js")
    assert gzip.decompress(file.compressed) == file.body


@pytest.mark.slow
def test_types_are_correct() -> None:
    """Checked by `tsc --checkJs --strict`, with the answer types of `types.d.ts`."""
    locked = [CLIENT / "package.json", CLIENT / "package-lock.json"]
    installed = npm_installed("typescript", locked, needed_for="the TypeScript compiler")
    compiler = installed / "node_modules" / ".bin" / "tsc"
    checked = subprocess.run([compiler, "-p", FOLDER / "jsconfig.json"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
