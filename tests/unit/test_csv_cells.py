"""CSV exports are inert in spreadsheets and terminals, and imports restore every text."""

import csv
import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.reviews.rows import ReviewDetails
from domain.csv_cells import cell_of, cells_of, text_of
from plaudit.tools.export import review_writer
from plaudit.tools.file_format import FileFormat
from plaudit.tools.imports.rows import csv_header, csv_rows

STORED = st.text(st.characters(exclude_categories=["Cs"]))
"""A superset of the texts that a review can hold."""

NASTY = st.text(st.sampled_from("'=+-@\t\r\n \x0b\x1b\x9b\0_x0015BDF\uff1d\",;a"))
PIECES = st.lists(st.sampled_from(["_", "x005F", "x001B", "_x005F_", "\x1b", "'", "="]))
TEXTS = st.one_of(STORED, NASTY, PIECES.map("".join))


def write_csv(*reviews: Any) -> bytes:
    file = io.BytesIO()
    write = review_writer(file, FileFormat.CSV)
    for review in reviews:
        write(review)
    # Deleting the writer must not close its file, which may be standard output.
    del write
    return file.getvalue()


def row(text: str) -> dict[str, Any]:
    number: dict[str, Any] = {"rating": 4.5, "reviewStatusId": 0}
    return {name: number.get(name, text) for name in ReviewDetails.__annotations__}


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_import_restores_exported_texts(texts: list[str]) -> None:
    file = io.BytesIO(write_csv(*map(row, texts)))
    found = csv_header(file)
    assert found is not None
    rows = list(csv_rows(file, found[0], offset=found[1].end, line=found[1].end_line))
    expected = [{**row(text), "rating": "4.5", "reviewStatusId": "0"} for text in texts]
    assert [each.columns for each in rows] == [{name: each[name] for name in found[0]} for each in expected]
    assert {"review", "title", "userName"} <= set(found[0])


@given(TEXTS)
def test_cells_are_inert(text: str) -> None:
    data = write_csv(row(text)).decode()
    for cell in list(csv.reader(io.StringIO(data, newline=""), strict=True))[1]:
        assert not re.match(r"[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20]", cell)
    assert not re.search(r"[^\t\n\r -~\xa0-\U0010ffff]", data)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=HYPERLINK(A1)", "'=HYPERLINK(A1)"),
        ("-5", "'-5"),
        ("\tindented", "'\tindented"),
        (" =1+1", "' =1+1"),
        ("\uff1d\uff11", "'\uff1d\uff11"),
        ("'=1", "''=1"),
        ("'Tis great", "'Tis great"),
        ("a\x1b[2Jb", "a_x001B_[2Jb"),
        ("_x001B_", "_x005F_x001B_"),
        ("_x4E2D", "_x4E2D"),
        ("a=b\r\n", "a=b\r\n"),
    ],
)
def test_cells_stay_readable(text: str, cell: str) -> None:
    assert cell_of(text) == cell
    assert text_of(cell) == text


@pytest.mark.parametrize("cell", ["'Tis great", "''", "_x4E2D_", "_x001b_", "a'=b", "_"])
def test_foreign_cells_are_unchanged(cell: str) -> None:
    assert text_of(cell) == cell


def test_texts_of_a_row_become_cells() -> None:
    row = {"title": "=1", "rating": 4.5, "images": ["=1"], "user": None}
    assert cells_of(row) == {**row, "title": "'=1"}
