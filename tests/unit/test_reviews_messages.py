"""Messages of submitted reviews: the sender's rights that the consumer reads from them."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from jsonschema_rs import Draft202012Validator

from api.app import create_app
from domain.delivery import OutgoingMessage
from messaging.kafka.connection import KafkaConnection
from messaging.kafka.publisher import Publisher
from messaging.reading_errors import InvalidContentError
from messaging.reviews import ONE_SUBMISSION, READ_ONE, submissions_in
from storage import database as storage_database
from storage.database import connect
from tests.support.app import NOWHERE, REVIEW, client_of, facade_services
from tests.support.facade import REVIEWS, once


@pytest.fixture(autouse=True)
def _short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the unavailable database."""
    monkeypatch.setattr(storage_database, "SOON_S", 0.01)


class Published(Publisher):
    """Records the published messages."""

    def __init__(self) -> None:
        super().__init__(KafkaConnection(NOWHERE))
        self.messages: list[OutgoingMessage] = []

    async def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        self.messages += messages


async def editor_of(**fields: Any) -> dict[str, str]:
    """The editor in the message of a review that is sent without authentication."""
    client, database = connect(f"mongodb://{NOWHERE}", "nothing", timeout=0.001)
    published = Published()
    app = create_app(facade_services(database, published))
    async with client, client_of(app) as http:
        headers = {"Idempotency-Key": once()["Idempotency-Key"]}
        assert (await http.post(REVIEWS, json=[{**REVIEW, **fields}], headers=headers)).status_code == 202
    (message,) = published.messages
    (submitted,) = submissions_in(message.value or b"")
    assert submitted.editor is not None
    editor: dict[str, str] = orjson.loads(message.value or b"")["editor"]
    return editor


@pytest.mark.parametrize("user", [None, "anna"])
async def test_idempotency_key_is_no_right_to_edit(user: str | None) -> None:
    """The id derived from it may by now be that of a review whose outcome is no longer stored."""
    assert await editor_of(userId=user) == {}


async def test_id_gives_a_right_to_edit_without_authentication() -> None:
    assert await editor_of(id="r", userId="anna") == {"right": "author"}
    assert await editor_of(id="r") == {"right": "moderator"}


async def test_edit_that_omits_its_text_is_accepted_while_the_database_is_unavailable() -> None:
    """The consumer decides."""
    assert await editor_of(id="r", userId="anna", review=None, rating=None) == {"right": "author"}


NAMED = {"id": "r", "EntityId": "camera", "EntityType": "Product"}
MISSING = [("/review", "missing"), ("/rating", "missing")]


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"title": "Corrected"}, []),
        ({"review": None, "rating": None}, []),
        ({"review": "Better"}, []),
        ({"rating": 2}, []),
        ({"id": None}, MISSING),
        ({"id": ""}, MISSING),
        ({"id": None, "review": None, "rating": 4}, MISSING[:1]),
        ({"EntityId": None, "id": None}, [("/EntityId", "missing"), *MISSING]),
        ({"id": "r" * 129}, [("/id", "string-too-long"), *MISSING]),
        ({"review": ""}, [("/review", "blank")]),
        ({"review": 5}, [("/review", "string-type")]),
        ({"rating": 0}, [("/rating", "greater-than-equal")]),
        ({"source": "import"}, MISSING),
        ({"source": "IMPORT", "review": "Old"}, MISSING[1:]),
    ],
)
def test_only_a_submission_with_an_id_may_omit_text_and_rating(
    fields: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    value = {**NAMED, **fields}
    if not errors:
        read = READ_ONE(orjson.dumps(value))
        assert read.omitted == tuple(name for name in ("review", "rating") if value.get(name) is None)
        return
    with pytest.raises(InvalidContentError) as refused:
        READ_ONE(orjson.dumps(value))
    assert [(error.pointer, error.code) for error in refused.value.errors] == errors


IMAGE = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize("image", [IMAGE, {"id": IMAGE, "hidden": True}])
def test_schema_accepts_images_as_rows_have_them(image: object) -> None:
    review = {**REVIEW, "images": [image]}
    assert READ_ONE(orjson.dumps(review)).images == (IMAGE,)
    assert Draft202012Validator(ONE_SUBMISSION.json_schema()).is_valid(review)
