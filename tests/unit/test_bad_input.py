"""`python -m tests.chaos.bad_input` finds messages that were swallowed."""

from tests.chaos.bad_input import place_of, without_letters


def test_a_refused_message_without_a_dead_letter_is_found() -> None:
    headers = {"x-source-topic": b"t", "x-source-partition": b"1", "x-source-offset": b"7", "x-error-code": b"empty"}
    assert place_of(headers) == ("t", 1, 7)
    refused = {("t", 1, 7): b"{", ("t", 1, 8): b"["}
    assert without_letters(refused, {("t", 1, 7), ("t", 1, 8), ("t", 1, 9)}) == []
    assert without_letters(refused, {("t", 1, 7), ("t", 0, 8), ("u", 1, 8)}) == ["no dead letter: ('t', 1, 8) b'['"]
