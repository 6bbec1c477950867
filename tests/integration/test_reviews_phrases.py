"""The phrase that reviews are searched for, in letter cases that differ in more than their letters."""

from __future__ import annotations

from tests.support.facade import Facade, submission


async def test_search_phrase_in_letter_cases_that_differ_in_length(facade: Facade, product: str) -> None:
    texts = ["Hauptstraße 5", "İstanbul", "OFFICE", "οδός"]
    by_text = dict(zip(texts, await facade.submit(*(submission(product, review=t) for t in texts)), strict=True))

    async def matches(phrase: str) -> set[str]:
        return set(await facade.listed(entityIds=[product], searchPhrase=phrase))

    for phrase in ("HAUPTSTRASSE", "hauptstrasse", "HAUPTSTRAẞE", "straße"):
        assert await matches(phrase) == {by_text["Hauptstraße 5"]}
    for phrase in ("istanbul", "ISTANBUL", "i\u0307stanbul", "İSTANBUL"):
        assert await matches(phrase) == {by_text["İstanbul"]}
    assert await matches("o\ufb03ce") == {by_text["OFFICE"]}
    assert await matches("ΟΔΌΣ") == {by_text["οδός"]}
    for longest in ("s" * 256, "ß" * 256, "ß" * 1_024, "ffi" * 85, "\u03b1\u03b9" * 128, "😀" * 1_024):
        assert await matches(longest) == set()
