"""`plaudit doctor` on a machine that is busy."""

from typing import Final

from .service import Service
from .waiting import eventually

_BUSY: Final = ("the checks didn't finish", "does not answer")


async def examined(service: Service, *, code: int | None = None) -> str:
    """The words of the doctor, who must end with this exit code, or any where it is None: asked again where a server
    took longer than the seconds that he gives it."""

    async def said() -> str:
        return " ".join((await service.run("doctor", code=code)).stdout.split())

    return await eventually(said, lambda words: not any(each in words for each in _BUSY))
