import pytest

from domain.languages import detectable, language_tag


@pytest.mark.parametrize(
    ("given", "tag"),
    [
        ("EN", "en"),
        ("en_us", "en-US"),
        ("de-at", "de-AT"),
        ("ZH-HANT-tw", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("sl-rozaj-BISKE-1994", "sl-rozaj-biske-1994"),
        ("en-a-BBB-us-x-LATN", "en-a-bbb-us-x-latn"),
        ("de-1996", "de-1996"),
        ("De-1996X", "de-1996x"),
        ("", ""),
    ],
)
def test_tags_are_normalized_to_usual_case(given: str, tag: str) -> None:
    assert language_tag(given) == tag


def test_short_texts_have_no_language() -> None:
    assert detectable(None, "x" * 20) is None
    assert detectable(None, "x" * 21) == "x" * 21
    assert detectable("t" * 10, "x" * 9) is None
    assert detectable("t" * 10, "x" * 10) == f"{'t' * 10} {'x' * 10}"
    assert detectable("", "x" * 20) is None
