"""Search of reviews by phrase."""

import pytest

from tests.support.facade import Facade, submission


async def found(facade: Facade, product: str, phrase: str) -> set[str]:
    return set(await facade.listed(entityIds=[product], searchPhrase=phrase))


@pytest.mark.long
async def test_search_phrase_is_literal_and_case_insensitive(facade: Facade, product: str) -> None:
    texts = ["50% off [a-z]* (really)", "C:\\dir ^start$ | end", "Große ÉCOLE, ŁÓDŹ und Ωμέγα", "plain .* text {2,3}?"]
    by_text = dict(zip(texts, await facade.submit(*(submission(product, review=t) for t in texts)), strict=True))

    for text, id in by_text.items():
        assert await found(facade, product, text) == {id}
        assert await found(facade, product, text[5:14].swapcase()) == {id}
    assert await found(facade, product, "[a-z]*") == {by_text[texts[0]]}
    assert await found(facade, product, ".*") == {by_text[texts[3]]}
    assert await found(facade, product, "école, łódź") == {by_text[texts[2]]}
    assert await found(facade, product, "ΩΜΈΓΑ") == {by_text[texts[2]]}
    assert await found(facade, product, "(") == {by_text[texts[0]]}
    assert await found(facade, product, "\\") == {by_text[texts[1]]}
    assert await found(facade, product, "anna") == set(by_text.values())
    assert await found(facade, product, "CAMERA CAMERA-") == set(by_text.values())
    assert await found(facade, product, "as GOOD") == set(by_text.values())
    assert await found(facade, product, "no such words") == set()
    # The text with the longest patterns, and one that is found within a run of letters.
    (sharp,) = await facade.submit(submission(product, review="ß" * 64))
    assert await found(facade, product, "ß" * 64) == await found(facade, product, "sẞS") == {sharp}


@pytest.mark.long
async def test_search_phrase_with_case_mappings_of_different_length(facade: Facade, product: str) -> None:
    texts = ["Hauptstraße 5", "İstanbul", "OFFICE", "οδός"]
    by_text = dict(zip(texts, await facade.submit(*(submission(product, review=t) for t in texts)), strict=True))

    for phrase in ("HAUPTSTRASSE", "hauptstrasse", "HAUPTSTRAẞE", "straße"):
        assert await found(facade, product, phrase) == {by_text["Hauptstraße 5"]}
    for phrase in ("istanbul", "ISTANBUL", "i\u0307stanbul", "İSTANBUL"):
        assert await found(facade, product, phrase) == {by_text["İstanbul"]}
    assert await found(facade, product, "o\ufb03ce") == {by_text["OFFICE"]}
    assert await found(facade, product, "ΟΔΌΣ") == {by_text["οδός"]}
    for longest in ("s" * 256, "ß" * 256, "ß" * 1_024, "ffi" * 85, "\u03b1\u03b9" * 128, "😀" * 1_024):
        assert await found(facade, product, longest) == set()
