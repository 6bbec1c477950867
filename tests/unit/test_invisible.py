import pytest

from domain.invisible import is_blank, unless_blank


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\r\n\xa0\u3000\u2028",
        "\u200b\u200d\u2060\ufeff\xad",
        "\u202e\u2066\u061c",
        "\u3164\uffa0\u115f\u2800",
        "\ufe0f",
        "\U000e0041",
    ],
)
def test_invisible_texts_are_blank(text: str) -> None:
    assert is_blank(text)
    assert unless_blank(text) is None
    assert not is_blank(f"{text}.{text}")


@pytest.mark.parametrize(
    "text", ["a", ".", "\u0645", "\u5b57", "\U0001f44d", "\u2764\ufe0f", "\U0001fae9", "\U0001faea", "\u0301", "\ue000"]
)
def test_visible_texts_are_not_blank(text: str) -> None:
    """So are characters newer than this Python's Unicode tables: they may be emoji."""
    assert not is_blank(text)
    assert unless_blank(text) == text
    assert unless_blank(None) is None
