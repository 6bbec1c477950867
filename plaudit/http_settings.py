"""Settings of the API."""

import re
from ipaddress import ip_address, ip_network
from typing import Annotated, Final

from pydantic import BaseModel, Field, field_validator

from api.web.process_limits import Limits
from domain.origins import check_origin

_ANY: Final = "*"
_NAME: Final = re.compile(r"(\*\.)?[a-z0-9._-]+", re.ASCII | re.IGNORECASE)


class _Address(BaseModel):
    host: Annotated[str, Field(description="Address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="Port; 0: any free port")] = 8080

    @property
    def address(self) -> str:
        """The URL of the API for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class HttpSettings(Limits, _Address):
    """Address and limits of the API."""

    max_head_bytes: Annotated[int, Field(ge=1_024, le=1024 * 1024, description="Bytes of request line and headers")] = (
        16_384
    )
    max_connections: Annotated[
        int, Field(ge=1, description="Of one process; beyond, the one that has kept it waiting for longest is closed")
    ] = 4_096
    receive_timeout: Annotated[
        float,
        Field(
            gt=0,
            le=600,
            description="Seconds to receive a whole request; one more for each 16 KiB of its body, up to 300",
        ),
    ] = 20.0
    send_timeout: Annotated[
        float,
        Field(
            gt=0, le=600, description="Seconds before a client that reads nothing more of its response is disconnected"
        ),
    ] = 30.0
    query_timeout: Annotated[
        float, Field(ge=1, le=600, description="Seconds before MongoDB aborts a query of the API; at least 1")
    ] = 10.0
    rate_per_second: Annotated[
        float | None,
        Field(
            ge=0,
            description="Requests of one client to one process; 0: unlimited. Unset: 500 with "
            "authentication, unlimited without",
        ),
    ] = None
    cors_origins: Annotated[
        tuple[str, ...],
        Field(
            description="Origins of pages that may call the API; none by default. For `/storefront/` each store "
            "has its own"
        ),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...] | None,
        Field(
            description="Accepted host names, besides its address and those of this machine; `*.example.com`: all "
            "subdomains, `*`: any. Unset: any with authentication, none without"
        ),
    ] = None
    trusted_proxies: Annotated[
        tuple[str, ...],
        Field(description="Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted"),
    ] = ()

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != _ANY:
                check_origin(origin)
        return origins

    @field_validator("allowed_hosts")
    @classmethod
    def _check_names(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in names or ():
            if name != _ANY and not _NAME.fullmatch(name) and not _is_address(name):
                raise ValueError(f"{name}: must be a host name like shop.example.com, without scheme and port")
        return names

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        if proxies != (_ANY,):
            for proxy in proxies:
                ip_network(proxy)
        return proxies


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
