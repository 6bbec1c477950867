"""`plaudit doctor` on a busy machine."""

from typing import Final

from .service import Service
from .waiting import eventually

_BUSY: Final = ("the checks didn't finish", "does not answer")
"""Texts about servers that responded too slowly for the check."""


async def examined(service: Service, *, code: int | None = None) -> str:
    """The output of `plaudit doctor` with single spaces. Runs again while a server is too slow; the exit code must
    be `code`, if given."""

    async def output() -> str:
        return " ".join((await service.run("doctor", code=code)).stdout.split())

    return await eventually(output, lambda text: not any(each in text for each in _BUSY))
