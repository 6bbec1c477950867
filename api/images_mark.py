"""The check that uploads go into the image store that was used before, and are looked up in it."""

from time import monotonic
from typing import Final

from storage.images.files import ImageFiles
from storage.images.mark import ImageStoreMark

TRUSTED_FOR_S: Final = 5.0
"""Seconds for which a checked store isn't checked again, so that not every request costs a query of it."""


class ImageStoreCheck:
    """Checks the image store of one process."""

    def __init__(self, mark: ImageStoreMark, files: ImageFiles) -> None:
        self._mark = mark
        self._files = files
        self._trusted_until = 0.0

    async def run(self) -> None:
        """Raises GenericError, as for an unavailable store, if the store isn't the one used before: workers wouldn't
        find there what is written now. A store that passed within the last TRUSTED_FOR_S passes again."""
        now = monotonic()
        if now >= self._trusted_until:
            await self._mark.check(self._files)
            self._trusted_until = now + TRUSTED_FOR_S
