"""Web origins, in exactly the form that browsers send."""

import re

import pytest

from domain.origins import check_origin


@pytest.mark.parametrize(
    "origin",
    [
        "https://shop.example",
        "http://localhost:8080",
        "https://xn--bcher-kva.example:8443",
        "http://[::1]:3000",
        "http://127.0.0.1",
        "http://my_shop.1st",
    ],
)
def test_valid_origins(origin: str) -> None:
    check_origin(origin)


NO_HOST = "Use an origin that begins with https:// or http:// and a host"
NOT_SMALL = "Write the host of an origin in lower case and in punycode (xn--), as browsers do"
NO_ADDRESS = "Write an address as browsers do, like 127.0.0.1 or [::1]"
TOO_MUCH = "An origin has no path, user or default port: use "


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("", "*", "null", "shop.example", "ftp://shop.example", "https://"), NO_HOST),
        (
            ("https://a b", "https://bücher.example", "https://*.shop.example", "https://-a.example", "https://a..b"),
            NOT_SMALL,
        ),
        (("http://127.1", "http://256.1.1.1", "http://0x7f.1", "http://[0:0:0:0:0:0:0:1]"), NO_ADDRESS),
        (("http://shop.example:0",), "The port of an origin can't be 0"),
        (
            ("https://shop.example/", "https://Shop.example", "https://u@shop.example"),
            f"{TOO_MUCH}https://shop.example",
        ),
        (("https://shop.example?x", "https://shop.example#x"), f"{TOO_MUCH}https://shop.example"),
        (("https://shop.example:443", "https://shop.example\n"), f"{TOO_MUCH}https://shop.example"),
        (("http://shop.example:80", "http://shop.example/x"), f"{TOO_MUCH}http://shop.example"),
        (("https://shop.example:8443/",), f"{TOO_MUCH}https://shop.example:8443"),
        (("https://[::1]:443",), f"{TOO_MUCH}https://[::1]"),
        (("https://shop.example:99999",), "The origin can't be read: Port out of range 0-65535"),
        (("https://[::1",), "The origin can't be read: Invalid IPv6 URL"),
    ],
)
def test_invalid_origins_are_refused(texts: tuple[str, ...], message: str) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            check_origin(text)
