"""No command prints control sequences from servers or files to a terminal."""

import json
from pathlib import Path

import pytest

from api.auth.api_keys import secret_digest
from domain.permissions import Caller, Permission
from domain.timestamps import from_milliseconds
from storage.database import connect
from storage.keys import ApiKey, ApiKeyRepository
from tests.support.messages import Message
from tests.support.service import Servers, Service

pytestmark = [pytest.mark.kafka, pytest.mark.long]

NASTY = "[bold]x[/] :bomb: \x1b[2J\x9b31m\x07\r\u202e"
SHOWN = "[bold]x[/] :bomb: \ufffd[2J\ufffd31m"


@pytest.fixture(scope="module")
async def prepared(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Service:
    """Fill the servers with control sequences in everything that commands print."""
    service = Service(servers, tmp_path_factory.mktemp("terminal"))
    await service.run("init")
    client, database = connect(servers.mongo, service.database)
    async with client:
        tally = {"entityType": NASTY, "entityId": NASTY, "storeId": NASTY, "count": 1, "sumHundredths": 500}
        await database["ratings"].insert_one({"_id": "wrong", **tally})
        caller = Caller(NASTY, frozenset({Permission.READ_REVIEWS}), frozenset({NASTY}))
        key = ApiKey(NASTY, caller, secret_digest("secret"), created=from_milliseconds(0), expires=None)
        await ApiKeyRepository(database).add(key)
    value = json.dumps({"userId": "anna", "review": NASTY}, ensure_ascii=False).encode()
    headers = [("x-error-code", NASTY.encode()), ("x-error-message", NASTY.encode()), (NASTY, NASTY.encode())]
    await service.publish("review-submissions.dlq", Message(NASTY, value, headers))
    return service


async def printed(service: Service, *command: str) -> str:
    result = await service.run(*command, code=None)
    output = result.stdout + result.stderr
    assert "Traceback" not in output
    assert all(character.isprintable() or character == "\n" for character in output), output
    return output


async def place(service: Service) -> tuple[str, str]:
    (letter,) = await service.records("review-submissions.dlq")
    return str(letter.partition), str(letter.offset)


async def test_ratings_are_printed_safely(prepared: Service) -> None:
    output = await printed(prepared, "ratings", "verify")
    assert f"{SHOWN}\ufffd\ufffd\ufffd, store {SHOWN}" in output


async def test_keys_are_printed_safely(prepared: Service) -> None:
    output = await printed(prepared, "keys", "list")
    assert all(output.count(part) >= 2 for part in SHOWN.split(" :bomb: "))


async def test_dead_letters_are_printed_safely(prepared: Service) -> None:
    assert (await printed(prepared, "dlq", "list")).count(SHOWN) == 3
    assert (await printed(prepared, "dlq", "show", "review-submissions", *await place(prepared))).count(SHOWN) == 5


async def test_personal_data_are_printed_safely(prepared: Service) -> None:
    (letter,) = json.loads(await printed(prepared, "privacy", "export", "--customer", "anna"))["deadLetters"]
    assert letter["value"]["review"] == NASTY


@pytest.mark.parametrize("command", [("doctor",), ("doctor", "--json")])
async def test_doctor_prints_safely(
    prepared: Service, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PLAUDIT_{NASTY}", "1")
    output = await printed(prepared, *command)
    assert "unknown variables" in output


async def test_import_prints_safely(prepared: Service, tmp_path: Path) -> None:
    file = tmp_path / "reviews.csv"
    file.write_text(f"entityId,{NASTY[:-2]},\n1,2,3\n")
    assert f"Use --map column=field to choose one of entityId, {SHOWN}" in await printed(
        prepared, "import", str(file), "--dry-run"
    )
