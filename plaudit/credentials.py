"""Removes credentials from addresses before any of the configuration is shown."""

import re
from typing import Any, Final

HIDDEN: Final = "**********"
"""The mask that Pydantic shows for a secret."""

_WORD: Final = re.compile(r"\S+")
# Up to the last @, so that a password with an @ that isn't percent-encoded is masked completely.
_USER_AND_PASSWORD: Final = re.compile(r"[^/:@]+:(?!//).*(?=@)")
_QUERY: Final = re.compile("[?#]")
_SCHEME: Final = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_END_OF_HOSTS: Final = re.compile(r"[/?]")
_SPACE: Final = re.compile(r"\s")


def without_credentials(text: str) -> str:
    """The text with user, password, query and fragment of each address masked.

    The whole query, because any of its parameters can be a key, and no list of names is complete.
    """
    return _WORD.sub(lambda word: _masked(word[0]), text)


def _masked(word: str) -> str:
    # Split only once, as log lines contain texts by strangers: each part of one could look like an address.
    if match := _USER_AND_PASSWORD.match(word):
        word = HIDDEN + word[match.end() :]
    scheme, is_address, rest = word.partition("://")
    if not is_address:
        return word
    start = _QUERY.search(rest)
    end = start.end() if start else len(rest)
    if "@" in rest[end:]:
        # It may belong to a query, or to a password with a ? in it, so the host can't be located.
        return f"{scheme}://{HIDDEN}"
    _, at, host = rest[:end].rpartition("@")
    return f"{scheme}://{HIDDEN if at else ''}{at}{host}{HIDDEN if rest[end:] else ''}"


def mongo_hosts(uri: str) -> str | None:
    """The hosts in a URI of MongoDB, for example `one:27017,two:27017`; None if an `@` follows them.

    As in PyMongo, hosts end at the first / or ?. If a password contains one of these that isn't percent-encoded, its
    parts look like a host, a database or an option, and would be shown as such.
    """
    hosts, *behind = _END_OF_HOSTS.split(uri.partition("://")[2], maxsplit=1)
    return None if "@" in "".join(behind) else hosts.rpartition("@")[2]


def shown_configuration(value: Any) -> Any:
    """A copy of a dumped configuration with the credentials in all its strings masked.

    A string that starts like an address is one to its end: whitespace in it can only belong to a password.
    """
    if isinstance(value, str):
        return without_credentials(_SPACE.sub("%20", value) if _SCHEME.match(value) else value)
    if isinstance(value, dict):
        return {name: shown_configuration(each) for name, each in value.items()}
    return [shown_configuration(each) for each in value] if isinstance(value, list) else value
