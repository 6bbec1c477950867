"""Checks of requests from browsers: the site that sent them, and the page to return to."""

import re
from typing import Final
from urllib.parse import unquote

from api.web.hygiene import SAFE_METHODS
from console.access import SIGN_IN

HOME: Final = "/console"
SIGN_OUT: Final = "/console/sign-out"

_LONGEST_WAY: Final = 1_500
_BELOW_CONSOLE: Final = re.compile(r"/console(/[\w.~!$&'()*+,;=:@%-]+)*/?(\?[!-~]*)?", re.ASCII)


def is_own_request(method: str, sec_fetch_site: str | None) -> bool:
    """True if a request may use the visitor's cookie: its method is safe, or one of our pages sent it.

    All current browsers send `Sec-Fetch-Site`, and no page can set it; unsafe requests without it are refused.
    """
    return method in SAFE_METHODS or sec_fetch_site == "same-origin"


def way_back(wanted: str | None) -> str:
    """The requested address if it is a page below /console, else the start page."""
    if not wanted or len(wanted) > _LONGEST_WAY or not _BELOW_CONSOLE.fullmatch(wanted):
        return HOME
    path = wanted.partition("?")[0]
    leads_up = any(part in (".", "..") for part in unquote(path).split("/"))
    return HOME if leads_up or path.startswith((SIGN_IN, SIGN_OUT)) else wanted
