"""The packages of the product, as the import contracts name them."""

import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final[tuple[str, ...]] = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"]
)
