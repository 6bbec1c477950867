"""The keys that seal cookies."""

from collections.abc import Sequence
from typing import Final

from api.web.problems import unavailable
from domain.sessions import cookie_key
from storage.generated_keys import GeneratedKey

_KEY: Final = "The key of cookies, which a worker generates when it first starts,"


class CookieKeys:
    """The configured keys, the first of which seals; without any, the one stored in the database."""

    def __init__(self, configured: Sequence[bytes], generated_key: GeneratedKey) -> None:
        self._keys = tuple(configured)
        self._generated_key = generated_key

    async def all(self) -> Sequence[bytes]:
        """The keys that open cookies, the sealing one first. Raises ProblemError: there is none yet, as a worker, which
        generates it when it starts, has never run."""
        if not self._keys:
            generated = await self._generated_key.get()
            if generated is None:
                raise unavailable(_KEY)
            # It never changes, so it is looked up once.
            self._keys = (cookie_key(generated),)
        return self._keys
