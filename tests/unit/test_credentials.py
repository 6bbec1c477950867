"""Credentials are removed from displayed addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plaudit.credentials import HIDDEN, shown_configuration, without_credentials


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("mongodb://user:secret@one,two/db?replicaSet=rs", f"mongodb://{HIDDEN}@one,two/db?{HIDDEN}"),
        ("mongodb+srv://user:p@ss/w:rd@host/db", f"mongodb+srv://{HIDDEN}@host/db"),
        ("http://token@proxy:3128", f"http://{HIDDEN}@proxy:3128"),
        ("https://host/path?a=1;key=2&b#t=3", f"https://host/path?{HIDDEN}"),
        ("https://u:p?p@host/path", f"https://{HIDDEN}"),
        ("user:secret@one:9092", f"{HIDDEN}@one:9092"),
        ("No answer of https://u:p@host: refused", f"No answer of https://{HIDDEN}@host: refused"),
    ],
)
def test_credentials_are_hidden(address: str, shown: str) -> None:
    assert without_credentials(address) == shown


@pytest.mark.parametrize(
    "text",
    [
        "localhost:9092,127.0.0.1:9093",
        "http://127.0.0.1:8080/a;b/c=d",
        "Shop <shop@example.com>",
        "user@REALM",
        "a?b=c",
        pytest.param("://" * 200_000, id="endless to read in quadratic time"),
    ],
)
def test_other_texts_are_unchanged(text: str) -> None:
    assert without_credentials(text) == text


SECRET = st.text(st.sampled_from("abc:/?#@&=;%,<>"), min_size=1).map(lambda text: f"S3C{text}S3C")


@given(st.sampled_from(["mongodb", "https", "socks5"]), SECRET, SECRET)
def test_any_password_is_hidden(scheme: str, user: str, password: str) -> None:
    assert "S3C" not in without_credentials(f"{scheme}://{user}:{password}@host:1/path?token={password}")


SPACED = st.text(st.sampled_from("ab:/?#@& \t\n"), min_size=1).map(lambda text: f"S3C{text}S3C")


@given(st.sampled_from(["mongodb", "MongoDB+srv", "https"]), SPACED, SPACED)
def test_configured_password_with_white_space_is_hidden(scheme: str, user: str, password: str) -> None:
    shown = shown_configuration({"uri": f"{scheme}://{user}:{password}@host:1/path?token={password}"})
    assert "S3C" not in shown["uri"]
    assert shown_configuration(["two words", "Shop <shop@example.com>"]) == ["two words", "Shop <shop@example.com>"]
