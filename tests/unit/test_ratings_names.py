"""Search keys and list keys of rated objects."""

import pytest
from hypothesis import given
from hypothesis.strategies import text

from domain.ratings_names import KEY_LENGTH, folded, list_key, position_in_search, search_keys


@pytest.mark.parametrize(
    ("said", "found"),
    [("  Canon  EOS-R5 ", "canon eos r5"), ("Café Łódź", "cafe łodz"), ("STRASSE", "strasse"), ("!?", ""), ("", "")],
)
def test_folded(said: str, found: str) -> None:
    assert folded(said) == found


@given(text(), text(min_size=1))
def test_an_object_is_found_by_its_id_and_from_each_word_on(name: str, id: str) -> None:
    keys = search_keys(name, id)
    assert folded(id) in keys
    for word in folded(name).split()[:12]:
        assert any(key.startswith(word) for key in keys)
    assert all(len(key) <= KEY_LENGTH for key in keys)


@given(text())
def test_what_is_folded_stays(said: str) -> None:
    assert folded(folded(said)) == folded(said)


def test_keys() -> None:
    assert search_keys("Canon EOS R5", "camera-1") == ["camera 1", "canon eos r5", "eos r5", "r5"]
    assert search_keys(None, "camera-1") == ["camera 1"]
    assert (list_key(None, "Camera-1"), list_key("Émile", "x")) == ("camera 1", "emile")
    found = sorted(["red camera", "camera bag", "camera"], key=lambda position: position_in_search("cam", position))
    assert found == ["camera", "camera bag", "red camera"]


def test_a_long_name_is_found_from_its_first_twelve_words_on() -> None:
    words = "a b c d e f g h i j k l m n"
    assert search_keys(words, "1") == ["1", *(words[start:] for start in range(0, 24, 2))]


@pytest.mark.parametrize(
    ("said", "found"),
    [("x" * 70, "x" * 64), ("x" * 63 + " y", "x" * 63), (" " * 9 + "x" * 64 + " y", "x" * 64)],
    ids=["one word", "a word behind the end", "signs before"],
)
def test_of_long_texts_the_beginning_counts(said: str, found: str) -> None:
    assert folded(said) == found
