"""Credentials inside addresses, hidden before anything of the configuration is shown."""

import re
from typing import Any, Final

HIDDEN: Final = "**********"
"""As Pydantic shows a secret."""

# To the last @: a password that should have been percent-encoded, and wasn't, is hidden as a whole.
_USER_OF_ADDRESS: Final = re.compile(r"(?<=://)\S*(?=@)")
_USER_AND_PASSWORD: Final = re.compile(r"(?<!\S)[^\s/:@]+:(?!//)\S*(?=@)")
# The @ may belong to a password with a ? or to a query, so the place of the host is unknown.
_AMBIGUOUS: Final = re.compile(r"(?<=://)[^\s?#]*[?#]\S*@\S*")
_QUERY: Final = re.compile(r"(://[^\s?#]*[?#])\S+")
_SCHEME: Final = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s")


def without_credentials(text: str) -> str:
    """The text with user and password of each address hidden, and all that stands behind its ? or #.

    All of a query: any of its parameters can be a key, and no list of names is complete.
    """
    text = _AMBIGUOUS.sub(HIDDEN, _USER_AND_PASSWORD.sub(HIDDEN, text))
    text = _USER_OF_ADDRESS.sub(HIDDEN, text)
    return _QUERY.sub(rf"\1{HIDDEN}", text)


def shown_configuration(value: Any) -> Any:
    """The same values, mappings and lists of a dumped configuration, with no credentials in any text.

    A value that begins as an address is one to its end: white space in it can only belong to a password.
    """
    if isinstance(value, str):
        return without_credentials(_SPACE.sub("%20", value) if _SCHEME.match(value) else value)
    if isinstance(value, dict):
        return {name: shown_configuration(each) for name, each in value.items()}
    return [shown_configuration(each) for each in value] if isinstance(value, list) else value
