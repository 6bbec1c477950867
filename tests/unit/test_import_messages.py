"""Conversion of rows to messages, and reports of omitted content."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from domain.csv_cells import cell_of
from domain.moderation_rules_text import text_hash
from messaging.feedback import FEEDBACK_COMMAND, FEEDBACK_LENGTH
from messaging.moderation import MODERATION_COMMAND
from messaging.reviews import submissions_in
from messaging.schemas import NAME_LENGTH, REVIEW_LENGTH
from messaging.topics import TopicNames
from plaudit.errors import UsageError
from plaudit.tools.export import review_writer
from plaudit.tools.export_feedback import REPORTS_IN_LINE, VOTES_IN_LINE
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.bad_rows import BadRowError
from plaudit.tools.imports.batch import Batch
from plaudit.tools.imports.columns import SeenColumns
from plaudit.tools.imports.images import images_in
from plaudit.tools.imports.mapping import ColumnMapping
from plaudit.tools.imports.messages import MOST_REMEMBERED, RowMessages, RowReader
from plaudit.tools.imports.rows import Row, csv_header, csv_rows, json_rows

ROW = {"entityId": "c-1", "entityType": "Product", "review": "Good", "rating": 4}
PAST = {
    "reviewStatus": "Approved",
    "createdDate": "2023-05-06T07:08:09Z",
    "modifiedDate": "2023-05-06T07:08:09Z",
}
REPORT = {"reason": "spam", "explanation": "", "at": "2023-05-06T07:08:09Z", "email": f"{'m' * 60}@{'d.' * 80}example"}


def reader(mapping: ColumnMapping) -> RowReader:
    columns = SeenColumns(mapping, [], [], as_new=False)
    return RowReader(columns, TopicNames("t."), is_text=False)


def messages(columns: dict[str, Any], mapping: ColumnMapping | None = None) -> RowMessages:
    return reader(mapping or ColumnMapping()).messages(Row(1, 1, 1, columns))


def test_review_id_column_can_be_mapped_to_id() -> None:
    mapped = ColumnMapping.of(["reviewId=id"])
    for more in ({}, {"votes": 3}, {"votes": [], "reported": False}):
        row = {**ROW, "reviewId": "r-7", **more}
        assert messages(row).submission is not None
        submission = messages(row, mapped).submission
        assert submission is not None
        assert submissions_in(submission.value or b"")[0].id == "r-7"
    with pytest.raises(BadRowError, match="/entityId"):
        messages({"reviewId": "r-7"})


def test_exported_feedback_becomes_commands() -> None:
    lines = {"votes": [{"userId": "u", "helpful": False}] * 2, "reported": [REPORT]}
    rows = reader(ColumnMapping())
    rows.messages(Row(1, 1, 1, {**ROW, "id": "r"}))
    found = [rows.messages(Row(2, 2, 1, {"reviewId": "r", name: line})) for name, line in lines.items()]
    commands = [each for row in found for each in row.followers]
    assert [FEEDBACK_COMMAND.validate_json(each.value or b"").action for each in commands] == ["vote", "vote", "report"]


def hashes_in(row: RowMessages) -> list[str | None]:
    """The text hashes in the commands after a review or of a line of feedback."""
    values = [json.loads(each.value or b"") for each in row.followers]
    return [value.get("textHash") or next(iter(value.get("textHashes", {}).values()), None) for value in values]


def test_followers_carry_the_hash_of_the_review_text() -> None:
    reply = {"text": "Thanks", "createdDate": "2023-05-06T07:08:09Z", "modifiedDate": "2023-05-06T07:08:09Z"}
    votes = {"votes": [{"userId": "u", "helpful": True}]}
    rows = reader(ColumnMapping())

    def hashes(columns: dict[str, Any]) -> list[str | None]:
        return hashes_in(rows.messages(Row(1, 1, 1, columns)))

    text, other = text_hash("", "Good"), text_hash("Fine", "Bad")
    assert hashes({**ROW, **PAST, "id": "r", "reply": reply}) == [text, text]
    assert hashes({"reviewId": "r", **votes}) == [text]
    assert hashes({"reviewId": "r", "reported": [REPORT]}) == [text]
    # A second row with the id doesn't change the review's hash for later feedback.
    assert hashes({**ROW, **PAST, "id": "r", "review": "Bad", "title": "Fine"}) == [other]
    assert hashes({"reviewId": "r", **votes}) == [text]
    assert hashes({"reviewId": "elsewhere", **votes}) == []
    # Also for a review without a past.
    assert hashes({**ROW, "id": "plain"}) == []
    assert hashes({**votes, "reviewId": "plain"}) == [text]
    for n in range(MOST_REMEMBERED):
        hashes({**ROW, **PAST, "id": f"r-{n}"})
    assert len(rows.latest.texts) == MOST_REMEMBERED
    assert hashes({"reviewId": "r", **votes}) == []
    assert hashes({"reviewId": "r-0", **votes}) == [text]


VOTES: dict[str, Any] = {"reviewId": "r", "votes": [{"userId": "u", "helpful": True}] * 2}
OF_A_TYPO: dict[str, Any] = {**ROW, **PAST, "id": "r", "storeId": "Typo"}


def test_feedback_on_a_bad_row_is_omitted() -> None:
    rows = reader(ColumnMapping())

    def count_feedback(columns: dict[str, Any]) -> tuple[int, int]:
        messages = rows.messages(Row(1, 1, 1, columns))
        return len(messages.followers), messages.feedback_left_out

    with pytest.raises(BadRowError):
        count_feedback({**ROW, **PAST, "id": "r", "rating": 6})
    assert count_feedback(VOTES) == (0, 2)
    assert count_feedback({"reviewId": "r", "reported": [REPORT]}) == (0, 1)
    assert count_feedback({**ROW, **PAST, "id": "r"}) == (1, 0)
    with pytest.raises(BadRowError):
        count_feedback({**ROW, **PAST, "id": "r", "rating": 6})
    assert count_feedback(VOTES) == (2, 0)


def test_feedback_on_an_unparsable_line_is_omitted() -> None:
    rows = reader(ColumnMapping())
    lines = b'{"id": "r", "review": "Go\n' + json.dumps(VOTES).encode() + b"\n"
    bad, feedback = json_rows(io.BytesIO(lines), offset=0, line=0)
    with pytest.raises(BadRowError):
        rows.messages(bad)
    found = rows.messages(feedback)
    # Without the text of its review, it would apply to any review with the id.
    assert (found.followers, found.feedback_left_out) == ([], 2)


def test_feedback_on_a_row_of_an_unknown_store_is_omitted() -> None:
    rows, batch = reader(ColumnMapping()), Batch()
    lines: tuple[dict[str, Any], ...] = (OF_A_TYPO, {**ROW, **PAST, "id": "s"}, VOTES, {**VOTES, "reviewId": "s"})
    for number, columns in enumerate(lines, 1):
        batch.add(number, rows.messages(Row(number, number, 1, columns)))
    rows.latest.correct(batch.refuse({"Typo"}))
    assert [number for number, _ in batch.bad] == [1]
    assert [number for number, _ in batch.good] == [2, 4]
    assert batch.feedback_left_out == 2
    assert rows.messages(Row(5, 5, 1, VOTES)).feedback_left_out == 2


def test_feedback_is_about_the_valid_row_with_the_id() -> None:
    rows, batch = reader(ColumnMapping()), Batch()
    other = {**OF_A_TYPO, "storeId": None, "review": "Bad"}
    for line, columns in enumerate((OF_A_TYPO, VOTES, other, VOTES), 1):
        batch.add(line, rows.messages(Row(line, line, 1, columns)))
    rows.latest.correct(batch.refuse({"Typo"}))
    # Votes that precede it are omitted.
    assert ([line for line, _ in batch.good], batch.feedback_left_out) == ([3, 4], 2)
    text = text_hash("", "Bad")
    assert hashes_in(batch.good[-1][1]) == [text, text]
    # A later row of an unknown store doesn't change that.
    batch = Batch()
    batch.add(5, rows.messages(Row(5, 5, 1, OF_A_TYPO)))
    rows.latest.correct(batch.refuse({"Typo"}))
    assert hashes_in(rows.messages(Row(6, 6, 1, VOTES))) == [text, text]


def test_feedback_event_id_is_independent_of_the_text() -> None:
    found: list[RowMessages] = []
    for text in ("Good", "Bad"):
        rows = reader(ColumnMapping())
        rows.messages(Row(1, 1, 1, {**ROW, **PAST, "id": "r", "review": text}))
        found.append(rows.messages(Row(2, 2, 1, {"reviewId": "r", "reported": [REPORT]})))
    ids = [dict(each.headers)["ce_id"] for row in found for each in row.followers]
    assert (len(ids), ids[0]) == (2, ids[1])


def test_longest_exported_lines_can_be_read() -> None:
    character = "\U000e0000"
    names = dict.fromkeys(("name", "userId"), character * NAME_LENGTH)
    report = {**REPORT, **names, "explanation": character * FEEDBACK_LENGTH}
    settled = {"action": "approve", "moderator": character * NAME_LENGTH, "at": REPORT["at"]}
    vote = {"userId": names["userId"], "helpful": False}
    for line in (
        {"reviewId": names["name"], "reported": [{**report, "settled": settled}] * REPORTS_IN_LINE},
        {"reviewId": names["name"], "votes": [vote] * VOTES_IN_LINE},
    ):
        file = io.BytesIO()
        review_writer(file, FileFormat.JSONL)(line)
        (row,) = json_rows(file, offset=0, line=0)
        assert row.columns == line
    table = io.BytesIO(f"review\n{cell_of(chr(27) * REVIEW_LENGTH)}\n".encode())
    found = csv_header(table)
    assert found is not None
    (row,) = csv_rows(table, found[0], offset=found[1].end, line=1)
    assert row.columns == {"review": chr(27) * REVIEW_LENGTH}


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"reviewId": "r", "reported": [{**REPORT, "reason": "dull"}]}, "/reported/0/reason"),
        ({"reviewId": "r", "reported": [{**REPORT, "email": "nobody"}]}, "/reported/0/email"),
        ({"reviewId": "r", "reported": [{**REPORT, "settled": {"action": "x", "at": "2023"}}]}, "/reported/0/settled"),
        ({"reviewId": "r", "votes": [{"userId": "u", "helpful": True, "at": "2023"}]}, "/votes/0/at"),
        ({**ROW, **PAST, "reasonCode": "spam"}, "/reasonCode"),
        ({**ROW, **PAST, "reply": {"text": " ", "createdDate": "", "modifiedDate": ""}}, "/reply/text"),
    ],
)
def test_invalid_past_is_refused(row: dict[str, Any], place: str) -> None:
    with pytest.raises(BadRowError) as failure:
        messages(row)
    assert str(failure.value).startswith(place)


@pytest.mark.parametrize(
    "row",
    [
        {"reviewId": "r", "votes": [{"a": 1}] * 20_000},
        {"reviewId": "r", "reported": [{"a": 1}] * 20_000},
        {**ROW, **PAST, "flags": [1] * 20_000},
        {**ROW, **PAST, "reply": {"": 1, **{f"{n:0>2000}": n for n in range(300)}}},
        {**ROW, **PAST, "images": [{"sha256": 1}] * 20_000},
    ],
)
def test_reason_of_a_bad_row_is_bounded(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadRowError) as failure:
        replace(reader(ColumnMapping()), folder=tmp_path).messages(Row(1, 1, 1, row))
    assert len(str(failure.value)) < 10_000
    batch = Batch()
    batch.add_bad(1, str(failure.value))
    assert batch.bytes == len(str(failure.value))


def test_long_names_are_cut() -> None:
    long = "n" * 100_000
    (row,) = json_rows(io.BytesIO(f'{{"{long}": 1, "{long}": 2}}'.encode()), offset=0, line=0)
    assert len(row.fault or "") < 300
    rows = reader(ColumnMapping())
    for n in range(2):
        rows.messages(Row(1, 1, 1, {**ROW, f"{long}{n}": 1}))
    (name,) = rows.columns.left_out
    assert len(name) == 200
    with pytest.raises(UsageError) as failure:
        ColumnMapping().check([f"{long}{n}" for n in range(30)])
    assert len(str(failure.value)) < 6_000
    assert "and 10 more" in str(failure.value)


@pytest.mark.parametrize("is_text", [False, True])
def test_empty_texts_of_a_past_are_missing_only_in_tables(is_text: bool) -> None:
    empty = dict.fromkeys(("moderator", "moderationReason", "reasonCode", "source", "language"), "")
    row = {name: str(value) for name, value in ROW.items()} if is_text else ROW
    found = replace(reader(ColumnMapping()), is_text=is_text).messages(
        Row(1, 1, 1, {**row, **PAST, **empty, "id": "r"})
    )
    command = MODERATION_COMMAND.validate_json(found.followers[0].value or b"")
    assert (command.moderator, command.reason) == ((None, None) if is_text else ("", ""))


def test_image_with_unknown_fields_is_refused(tmp_path: Path) -> None:
    image = {"id": str(UUID(int=0)), "hidden": False, "uploader": None, "sha256": "0" * 64, "caption": "Mine"}
    with pytest.raises(BadRowError, match="/0/caption"):
        images_in({"images": [image]}, tmp_path)
    with_folder = replace(reader(ColumnMapping()), folder=tmp_path)
    for images, count in (([{"id": image["id"], "hidden": False}], 1), ([], 0), (None, 0)):
        named = {**ROW, **PAST, "images": images}
        assert with_folder.messages(Row(1, 1, 1, named)).without_file == count


@pytest.mark.parametrize(
    "images",
    [
        str(UUID(int=0)),
        [str(UUID(int=0))],
        {"id": str(UUID(int=0))},
        [{"id": str(UUID(int=0)), "caption": "Mine"}],
        [{"id": "1"}],
        [{}],
    ],
)
def test_invalid_images_make_a_bad_row(images: Any, tmp_path: Path) -> None:
    row = {**ROW, **PAST, "images": images}
    with pytest.raises(BadRowError, match="/images"):
        replace(reader(ColumnMapping()), folder=tmp_path).messages(Row(1, 1, 1, row))
    assert messages(row).submission is not None


def test_row_never_edits_and_its_event_id_depends_on_content() -> None:
    first, again, other = (messages({**ROW, "rating": n, "id": "r-1"}).submission for n in (4, 4, 5))
    assert first
    assert again
    assert other
    (editor,) = [each.editor for each in submissions_in(first.value or b"")]
    assert editor is not None
    assert editor.right is None
    ids = [dict(each.headers)["ce_id"] for each in (first, again, other)]
    assert (ids[0] == ids[1], ids[0] == ids[2]) == (True, False)


def test_mapped_column_is_noticed_after_many_others() -> None:
    seen = SeenColumns(ColumnMapping.of(["stars=rating"]), [], [], as_new=False)
    seen.note({f"column {number}": 1 for number in range(1_000)})
    assert seen.missing() == ["stars"]
    seen.note({"stars": 4})
    assert seen.missing() == []


def test_omitted_columns_are_named() -> None:
    mapping = ColumnMapping.of(["stars=rating", "headline=title"])
    exported = {**ROW, **PAST, "storeName": "s", "helpful": 2, "newer": 1, "stars": 4}
    plain = {**ROW, "stars": 4, "title": "lost", "createdDate": "2023"}
    for as_new, expected in ((False, ["rating", "newer", "title", "createdDate"]), (True, None)):
        left_out, seen = list[str](), list[str]()
        columns_seen = SeenColumns(mapping, left_out, seen, as_new=as_new)
        rows = RowReader(columns_seen, TopicNames("t."), is_text=False)
        for columns in (exported, plain):
            rows.messages(Row(1, 1, 1, columns))
        assert seen == ["stars"]
        assert rows.columns.missing() == ["headline"]
        assert left_out == (expected or ["rating", *PAST, "storeName", "helpful", "newer", "title"])
