"""Search keys and list keys of rated objects."""

import pytest
from hypothesis import given
from hypothesis.strategies import text

from domain.ratings_names import KEY_LENGTH, folded, key_of, list_key, position_in_search, search_keys


@pytest.mark.parametrize(
    ("original", "found"),
    [
        *(
            ("  Canon  EOS-R5 ", "canon eos r5"),
            ("Café Łódź", "cafe łodz"),
            ("STRASSE", "strasse"),
            ("!?", ""),
            ("", ""),
        ),
        # Cut within a word, before a word behind the end, and without the signs before.
        *(("x" * 70, "x" * 64), ("x" * 63 + " y", "x" * 63), (" " * 9 + "x" * 64 + " y", "x" * 64)),
    ],
)
def test_folded(original: str, found: str) -> None:
    assert folded(original) == found


@given(text(), text(min_size=1))
def test_object_is_found_by_id_and_from_each_word_of_its_name(name: str, id: str) -> None:
    keys = search_keys(name, id)
    assert key_of(id) in keys
    for word in folded(name).split()[:12]:
        assert any(key.startswith(word) for key in keys)
    assert all(len(key) <= KEY_LENGTH for key in keys)


@given(text())
def test_folding_is_idempotent(original: str) -> None:
    assert folded(folded(original)) == folded(original)


def test_keys() -> None:
    assert search_keys("Canon EOS R5", "camera-1") == ["camera 1", "canon eos r5", "eos r5", "r5"]
    assert search_keys(None, "camera-1") == ["camera 1"]
    assert search_keys("!", "__") == ["__"]
    assert list_key("!", "__") == "__"
    assert (list_key(None, "Camera-1"), list_key("Émile", "x")) == ("camera 1", "emile")
    found = sorted(["red camera", "camera bag", "camera"], key=lambda position: position_in_search("cam", position))
    assert found == ["camera", "camera bag", "red camera"]


def test_long_name_is_found_from_its_first_twelve_words() -> None:
    words = "a b c d e f g h i j k l m n"
    assert search_keys(words, "1") == ["1", *(words[start:] for start in range(0, 24, 2))]
