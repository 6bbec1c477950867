"""Parsing of mail addresses: every text either parses or is refused."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.addresses import InvalidAddressError, address_in, bare_address, mailbox, one_line

ANNA = "anna@example.com"
SIGNS = 'ab @<>()[]"\\.,:;=?\t\u200bä\uff20\uff0c\uff08\udc80'
PIECES = st.sampled_from([*SIGNS, "=?utf-8?q?", "=?utf-8?b?", "?=", "=5B", "=5D", "=40", "a@b"])


def domain_of(length: int) -> str:
    return ".".join([*["x" * 63] * 3, "y" * (length - 194), "z"])


def named(characters: int) -> str:
    """An address with a display name, `characters` long in total."""
    return f"{'A' * (characters - len(ANNA) - 3)} <{ANNA}>"


@pytest.mark.parametrize(
    ("text", "name", "user", "domain"),
    [
        (ANNA, "", "anna", "example.com"),
        (f"Anna Berg <{ANNA}>", "Anna Berg", "anna", "example.com"),
        (f'"Berg, Anna" <{ANNA}>', "Berg, Anna", "anna", "example.com"),
        (f"Anna\u200b\u2028Berg <{ANNA}>", "Anna Berg", "anna", "example.com"),
        ("Änna <ä@münchen.example>", "Änna", "ä", "xn--mnchen-3ya.example"),
        ("anna@Faß.example", "", "anna", "xn--fa-hia.example"),
        ("anna@sub_x.bücher.example", "", "anna", "sub_x.xn--bcher-kva.example"),
        ("anna@r3---sn。bücher.example", "", "anna", "r3---sn.xn--bcher-kva.example"),
        ("anna@a_b.example", "", "anna", "a_b.example"),
        ("anna@x", "", "anna", "x"),
        ("anna@[192.0.2.1]", "", "anna", "[192.0.2.1]"),
        ("anna@[IPv6:2001:db8::1]", "", "anna", "[IPv6:2001:db8::1]"),
        (f"anna@{domain_of(255)}", "", "anna", domain_of(255)),
        (named(640), "A" * 621, "anna", "example.com"),
    ],
    ids=count(),
)
def test_single_address_is_parsed(text: str, name: str, user: str, domain: str) -> None:
    found = mailbox(text)
    assert (found.display_name, found.username, found.domain) == (name, user, domain)
    assert bare_address(text) == f"{user}@{domain}"


@pytest.mark.parametrize(
    "text",
    [
        *("", "anna", "anna@", "anna@[", "anna@[ ", ", .)", "@example.com", f"{ANNA}, bert@example.com"),
        *(f"Anna <{ANNA}", "an na@example.com", "anna@example..com", f"Friends: {ANNA};", '""@example.com'),
        *(f"\t{ANNA}", f"Anna\tBerg <{ANNA}>", f"Anna\nBerg <{ANNA}>", f"Anna\x1fBerg <{ANNA}>"),
        *("a\u200bb@example.com", "anna@\u200b", "anna@☃.example"),
        *("anna@" + "é" * 64, f"anna@{domain_of(256)}", named(641)),
        # IDNA maps these characters of the domain to delimiters of addresses.
        *("anna@x.example\uff0cbob\uff20evil.example", "anna@x\uff20evil.example"),
        *("anna@x\uff08y.example", "anna@⑴.example", "anna@x.example\uff1e", "anna@ä\uff0e\uff0eexample"),
        *("anna@x\uff1cy.example", "anna@x\uff0fy.example", "anna@x\uff1a25.example"),
        *("anna@a!b.bücher.example", "anna@bücher。", "anna@=?utf-8?q?x@y?="),
        *("anna@=?utf-8?q?=5Bx=3E=2Cb=40c=2Ede?=", "anna@=?utf-8?q?=5Ba=40b=2Ede=5D?=", "anna@=?utf-8?q?=5Bx?="),
        *("anna@[]", "anna@[a@b]", "anna@[x]", "anna@=?utf-8?q?x=5D?="),
    ],
    ids=count(),
)
def test_invalid_address_is_refused_and_returned_unchanged(text: str) -> None:
    with pytest.raises(InvalidAddressError) as refused:
        mailbox(text)
    assert str(refused.value) == "Must be a single e-mail address, like shop@example.org or Shop <shop@example.org>"
    assert bare_address(text) == text


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = mailbox(text).addr_spec
    except InvalidAddressError:
        assert bare_address(text) == text
    else:
        assert found == bare_address(text)
        assert mailbox(found).addr_spec == found


@given(st.lists(st.sampled_from([*"aZ0_+-.@", "ab", "x" * 63]), max_size=9).map("".join))
def test_address_in_agrees_with_the_parser(text: str) -> None:
    assert (address_in(text) is not None) == _is_mailbox(text)


def _is_mailbox(text: str) -> bool:
    try:
        return mailbox(text).addr_spec == text
    except InvalidAddressError:
        return False


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *(("Good\r\nBcc: bert", "Good Bcc: bert"), (" a \t\u200b b\x00c ", "a b c"), ("\n", ""), ("größer", "größer")),
        ("a\x85b\u2028c\u2029d\ud800e\u202ef\u2066g\u200eh\u061ci\xa0j", "a b c d e f g h i j"),
        *((kept, kept) for kept in ("می\u200cرود", "ශ්\u200dරී", "👩\u200d💻", "\U0001fadc\U0001fbff\U0001fae9")),
    ],
)
def test_one_line_keeps_visible_characters(text: str, line: str) -> None:
    assert one_line(text) == line
