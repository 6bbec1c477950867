"""Memory of processes under test."""

from pathlib import Path


class Memory:
    """The memory of a process since this object was created."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        (self._folder / "clear_refs").write_text("5")
        self._before = self._of("VmRSS")

    def growth(self) -> int:
        """Maximum growth of resident memory, in bytes."""
        return self.peak() - self._before

    def peak(self) -> int:
        """Peak resident memory, in bytes."""
        return self._of("VmHWM")

    def _of(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
