"""Parsing of import files into rows, mapping of rows to reviews, reports and checkpoints."""

import asyncio
import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.csv_cells import text_of
from messaging.topics import TopicNames
from plaudit.errors import UsageError
from plaudit.terminal import Terminal
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports import reviews
from plaudit.tools.imports import rows as rows_module
from plaudit.tools.imports.bad_rows import BadRowError
from plaudit.tools.imports.checkpoint import Checkpoint, checkpoint_of
from plaudit.tools.imports.columns import SeenColumns
from plaudit.tools.imports.mapping import ColumnMapping
from plaudit.tools.imports.messages import RowReader
from plaudit.tools.imports.options import ImportOptions, check_text
from plaudit.tools.imports.rows import MAX_LINE_BYTES, Line, Lines, Row, csv_header, csv_rows, json_rows

ROW = {"entityId": "c-1", "entityType": "Product", "review": "Good", "rating": "4"}


def from_csv(data: bytes) -> list[Row]:
    file = io.BytesIO(data)
    found = csv_header(file)
    assert found is not None
    names, header = found
    return list(csv_rows(file, names, offset=header.end, line=header.end_line))


def test_rows_have_the_number_of_their_first_line() -> None:
    rows = from_csv(b'\xef\xbb\xbfa,b\r\n1,"two\nlines"\r\n\r\n3,4')
    assert [(row.line, row.columns) for row in rows] == [
        (2, {"a": "1", "b": "two\nlines"}),
        (5, {"a": "3", "b": "4"}),
    ]
    assert rows[-1].end == 28


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"1\n", "The row has 1 columns, but the header has 2"),
        (b"1,2,3\n", "The row has 3 columns, but the header has 2"),
        (b"1,\xff\n", "Not UTF-8"),
        (b'1,"never closed\n', "Not CSV"),
        (b'1,"x"y\n', "Not CSV"),
        (b"1," + b"x" * MAX_LINE_BYTES + b"\n", "more than"),
        (b"1,a\rb\n", "Not CSV"),
    ],
)
def test_bad_row_does_not_affect_other_rows(bad: bytes, reason: str) -> None:
    rows = from_csv(b"a,b\n" + bad + b'5,"6"\n7,8\n')
    assert [row.columns for row in rows[1:]] == [{"a": "5", "b": "6"}, {"a": "7", "b": "8"}]
    assert [row.line for row in rows] == [2, 3, 4]
    assert rows[0].fault is not None
    assert reason in rows[0].fault


@pytest.mark.parametrize("most_lines", [10, 10_000])
def test_unclosed_quotes_are_parsed_in_linear_time(monkeypatch: pytest.MonkeyPatch, most_lines: int) -> None:
    monkeypatch.setattr(rows_module, "_MOST_LINES", most_lines)
    count, parsed, read_line = 1_000, 0, Lines.__next__

    def counted(lines: Lines) -> Line:
        nonlocal parsed
        parsed += 1
        return read_line(lines)

    monkeypatch.setattr(Lines, "__next__", counted)
    rows = from_csv(b"a,b\n" + b'1","2\n' * count + b"3,4\n")
    assert [row.line for row in rows if row.fault] == list(range(2, 2 + count))
    assert rows[-1].columns == {"a": "3", "b": "4"}
    assert parsed < 5 * count


def test_too_large_row_may_contain_the_start_of_a_valid_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_MOST_LINES", 8)
    rows = from_csv(b"a,b\n" + b'1","2\n' * 10 + b'3"\n' + b"7,8\n")
    assert [(row.line, row.end_line) for row in rows] == [(2, 2), (3, 3), (4, 4), (5, 5), (6, 12), (13, 13)]
    assert all("lines" in (row.fault or "") for row in rows[:4])
    assert rows[-1].columns == {"a": "7", "b": "8"}


async def test_import_of_only_bad_rows_yields_to_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_PAUSE_EVERY_S", 0)
    callbacks: list[int] = []

    def rows() -> Iterator[Row]:
        for number in range(3):
            yield Row(number, number, number, fault="Not CSV")
            asyncio.get_running_loop().call_soon(callbacks.append, number)

    mapping = ColumnMapping()
    reader = RowReader(SeenColumns(mapping, [], [], as_new=False), TopicNames("t."), is_text=True)
    order = ImportOptions(Path("reviews.csv"), FileFormat.CSV, mapping)
    run = reviews._Import(order, None, None, reader, Checkpoint(job="a"), Terminal())
    (batch,) = [each async for each in run._batches(rows())]
    assert (len(batch.bad), callbacks) == (3, [0, 1])


def test_json_lines() -> None:
    rows = list(json_rows(io.BytesIO(b'{"a": 1}\n\n[1]\nx\n\xff\n{"a": 2}'), offset=0, line=0))
    assert [(row.line, row.columns) for row in rows if row.columns] == [(1, {"a": 1}), (6, {"a": 2})]
    assert [row.line for row in rows if row.fault] == [3, 4, 5]


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.text('a\n\r",é'))),
    st.integers(min_value=0),
)
def test_reading_can_resume_after_any_row(content: list[tuple[str, str]], cut: int) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("a", "b"), *content])
    data = text.getvalue().encode()
    rows = from_csv(data)
    assert [tuple((row.columns or {}).values()) for row in rows] == [(text_of(a), text_of(b)) for a, b in content]
    if rows:
        at = rows[cut % len(rows)]
        rest = list(csv_rows(io.BytesIO(data), ["a", "b"], offset=at.end, line=at.end_line))
        assert rest == rows[rows.index(at) + 1 :]


def test_columns_are_matched_by_name_or_mapping() -> None:
    mapping = ColumnMapping.of(["stars=rating", "text = x=review"], store="S", entity_type="Product")
    row = {"Entity-ID": "c-1", "entity_type": "", "stars": " 4.5 ", "text = x": "Good", "rating": "old", "more": "?"}
    mapping.check(row)
    review = mapping.submission(row, is_text=True)
    assert (review.entity_id, review.entity_type, review.rating) == ("c-1", "Product", 4.5)
    assert (review.review, review.store_id, review.title) == ("Good", "S", None)


@pytest.mark.parametrize("pair", ["rating", "=rating", "a=stars", "a="])
def test_malformed_mapping_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="column=field"):
        ColumnMapping.of([pair])


def test_mapping_must_fit_the_file() -> None:
    with pytest.raises(UsageError, match="one field only"):
        ColumnMapping.of(["a=rating", "b=rating"])
    with pytest.raises(UsageError, match="no column stars"):
        ColumnMapping.of(["stars=rating"]).check(ROW)
    with pytest.raises(UsageError, match="No column is mapped to rating"):
        ColumnMapping.of([]).check(["entityId", "entityType", "review", "stars"])
    with pytest.raises(UsageError, match="semicolons instead of commas"):
        ColumnMapping.of([]).check([";".join(ROW)])
    with pytest.raises(UsageError, match="Several columns are mapped to entityId"):
        ColumnMapping.of([]).check([*ROW, "entity_id"])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"rating": "6"}, "/rating"),
        ({"rating": "good"}, "/rating"),
        ({"rating": "nan"}, "/rating"),
        pytest.param({"rating": f"{'1' * 500_000}x"}, "/rating", id="endless to read in quadratic time"),
        ({"review": " "}, "/review"),
        ({"entityId": ""}, "/entityId"),
        ({"title": "secret\0"}, "/title"),
        ({"writtenDate": "1612050112345"}, "/writtenDate"),
        ({"writtenDate": "9999-12-31T23:59:59Z"}, "/writtenDate"),
        pytest.param({"writtenDate": f"{' ' * 500_000}x"}, "/writtenDate", id="endless spaces"),
    ],
)
def test_invalid_row_is_refused(change: dict[str, str], place: str) -> None:
    with pytest.raises(BadRowError) as failure:
        ColumnMapping().submission({**ROW, **change}, is_text=True)
    assert str(failure.value).startswith(f"{place}: ")
    assert "secret" not in str(failure.value)


def test_spaces_around_ids_in_a_table_are_stripped() -> None:
    names = {"id": "17", "entityId": "lens-1", "entityType": "Product", "userId": "u", "language": "de"}
    spaced = {name: f" {value}\t" for name, value in names.items()}
    row = {**ROW, **spaced, "storeId": " ", "title": " Good ", "userName": " Anna"}
    review = ColumnMapping(defaults={"storeId": "S"}).submission(row, is_text=True)
    fields = (review.id, review.entity_id, review.entity_type, review.user_id, review.language)
    assert fields == tuple(names.values())
    assert (review.store_id, review.title, review.user_name) == ("S", " Good ", " Anna")


def test_spaces_around_exported_or_quoted_ids_are_kept() -> None:
    dates = dict.fromkeys(("reviewStatus", "createdDate", "modifiedDate"), "2023")
    spaced = {"id": " 17", "entityType": " Product"}
    for row, is_text in (({**ROW, **dates, **spaced}, True), ({**ROW, **spaced, "rating": 4}, False)):
        review = ColumnMapping().submission(row, is_text=is_text)
        assert (review.id, review.entity_type) == (" 17", " Product")


def identity(row: dict[str, Any], *, is_text: bool = True) -> str | None:
    return ColumnMapping().submission(row, is_text=is_text).id


def test_row_is_identified_by_id_or_content() -> None:
    assert identity({**ROW, "id": "r-1"}) == identity({**ROW, "id": "r-1", "rating": "5"}) == "r-1"
    assert identity(ROW) == identity(dict(reversed(ROW.items()))) == identity({**ROW, "title": "", "other": "x"})
    assert identity(ROW) == identity({**ROW, "rating": 4}, is_text=False)
    for name in ("entityId", "userId", "title", "storeId", "review"):
        assert identity({**ROW, name: "another"}) != identity(ROW)


def test_row_that_is_no_object_is_reported() -> None:
    array, whole = "Not a JSON object: write each object of an array on a line of its own", "Not a JSON object"
    lines = {b"[": array, b' [{"rating": 1}]': array, b"[" * 2_000: array, b"1": whole, b"null": whole}
    deep = b'{"a": ' * 1_010 + b"1" + b"}" * 1_010
    faults = [row.fault for row in json_rows(io.BytesIO(b"\n".join([*lines, deep])), offset=0, line=0)]
    assert faults == [*lines.values(), "Nested too deeply"]


def test_duplicate_field_is_refused() -> None:
    lines = b'{"rating": 1, "rating": 5}\n{"a": [{"b": 1, "b": 1}]}\n{"a": {"b": 1}, "b": [1, 1]}\n'
    assert [row.fault for row in json_rows(io.BytesIO(lines), offset=0, line=0)] == [
        "A field occurs twice: rating",
        "A field occurs twice: b",
        None,
    ]


def import_options(file: Path, report: Path | None = None) -> ImportOptions:
    return ImportOptions(file, FileFormat.JSONL, ColumnMapping(), report)


def test_report_replaces_only_reports(tmp_path: Path) -> None:
    file, report, other = (tmp_path / name for name in ("r.jsonl", "report.jsonl", "other.jsonl"))
    for each in (file, other):
        each.write_text('{"review": "Good"}\n')
    for earlier in ("", '{"li', '{"line":1,"reason":"x"}\n'):
        report.write_text(earlier)
        import_options(file, report).check()
    for taken in (other, Path("/dev/null"), file, tmp_path / "r.jsonl.plaudit-import.json"):
        with pytest.raises(UsageError, match="name another file"):
            import_options(file, taken).check()
    with pytest.raises(UsageError, match="/missing is not a folder: create it"):
        import_options(file, tmp_path / "missing" / "report.jsonl").check()


def test_default_report_does_not_follow_links(tmp_path: Path) -> None:
    file, other = tmp_path / "r.jsonl", tmp_path / "other"
    file.write_text('{"review": "Good"}\n')
    for target in ("", None):
        link = tmp_path / "r.jsonl.bad-rows.jsonl"
        link.unlink(missing_ok=True)
        link.symlink_to(other)
        other.write_text(target) if target is not None else other.unlink()
        with pytest.raises(UsageError, match=r"symbolic link.*--report"):
            import_options(file).check()
        # A link that is named explicitly is followed, as for exports.
        import_options(file, link).check()


def test_image_folder_is_beside_the_target_of_a_link(tmp_path: Path) -> None:
    link = tmp_path / "latest.jsonl"
    link.symlink_to(tmp_path / "2026.jsonl")
    assert import_options(link).image_folder == tmp_path / "2026.jsonl.images"


def test_pipes_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="save it"):
        import_options(pipe).check()
    with pytest.raises(UsageError, match="remove it"):
        Checkpoint.read(pipe, "job")


@pytest.mark.parametrize(
    "beginning",
    [
        *(b"\x1f\x8b\x08", b"PK\x03\x04", "\ufeff{}".encode("utf-16-le"), "{}".encode("utf-16-be")),
        b"entityId,rating\rtent-1,4\r",
    ],
)
def test_non_text_file_is_refused(beginning: bytes) -> None:
    with pytest.raises(UsageError, match="first"):
        check_text(io.BytesIO(beginning), Path("r.jsonl"))
    check_text(io.BytesIO(b"\xef\xbb\xbf{}"), Path("r.jsonl"))


def test_checkpoint_belongs_to_its_job(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    Checkpoint(job="a", offset=5).write(file)
    assert Checkpoint.read(file, "a") == Checkpoint(job="a", offset=5)
    assert Checkpoint.read(file, "b") is None
    file.write_text(json.dumps({"job": "a", "offset": "x"})[:-2])
    assert Checkpoint.read(file, "a") is None


async def test_import_resumes_only_with_its_own_report(tmp_path: Path) -> None:
    order = import_options(tmp_path / "reviews.jsonl", tmp_path / "bad.jsonl")
    mapping = ColumnMapping()
    reader = RowReader(SeenColumns(mapping, [], [], as_new=False), TopicNames("t."), is_text=True)
    done = Checkpoint(job="a")
    order.file.write_bytes(b"[1]\n" * 3)
    for times in range(1, 3):
        # The second run appends to the report.
        run = reviews._Import(order, None, None, reader, done, Terminal(quiet=True))
        with order.file.open("rb") as file:
            await run.run(file, [])
        done.offset = done.line = 0
        done.write(checkpoint_of(order.file))
        assert done.bad == 3 * times
    report = tmp_path / "bad.jsonl"
    written = report.read_bytes()
    with report.open("ab") as file:
        file.write(b'{"line": 9, "reason": "cut sho')
    assert reviews._resumable_checkpoint(order, "a") == done
    report.write_bytes(written.replace(b"JSON", b"HTML"))
    assert reviews._resumable_checkpoint(order, "a") is None
    # Checkpoints of earlier versions only store the report's size.
    done.report_sha256 = None
    done.write(checkpoint_of(order.file))
    assert reviews._resumable_checkpoint(order, "a") == done
    report.write_bytes(written[:-1])
    assert reviews._resumable_checkpoint(order, "a") is None
