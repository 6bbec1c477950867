"""Web origins: exactly what browsers send."""

from __future__ import annotations

import pytest

from domain.origins import InvalidOriginError, check_origin


@pytest.mark.parametrize(
    "origin",
    ["https://shop.example", "http://localhost:8080", "https://xn--bcher-kva.example:8443", "http://[::1]:3000"],
)
def test_origins(origin: str) -> None:
    check_origin(origin)


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "null", "shop.example", "ftp://shop.example", "https://", "https://shop.example/", "https://a b"),
        *("https://Shop.example", "https://shop.example:443", "http://shop.example:80", "https://u@shop.example"),
        *("https://shop.example?x", "https://shop.example#x", "https://bücher.example", "https://*.shop.example"),
        *("https://shop.example:99999", "https://[::1", "https://-a.example", "https://shop.example\n"),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(InvalidOriginError):
        check_origin(text)
