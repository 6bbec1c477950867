"""The functions of `storage/` whose queries may ask every shard of a cluster, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SCATTERING: Final[Mapping[str, str]] = {}
