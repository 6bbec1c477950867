"""The mark in the store of images: without it nothing is believed to be lost."""

from obstore.exceptions import GenericError

from consumers.services import Services
from storage.images_mark import ADVICE, WHY_ANOTHER


async def mark_store(services: Services) -> None:
    """Mark the store of images, once: it has just given a file that was put there, so it is the right one. Raises
    GenericError, as `check_store`, where one was used before that had no mark, and this one isn't it."""
    if not await services.store_mark.is_written():
        await check_store(services)
        # Remembered last: who remembers a mark that isn't there would believe no loss any more.
        await services.image_files.mark()
        await services.store_mark.note_written()


async def check_store(services: Services) -> None:
    """Raises GenericError, as for a store that is unavailable, where the store of images is another one than before:
    what it lacks isn't lost then, but elsewhere. The first one of all is believed."""
    if await services.store_mark.is_missing_in(services.image_files):
        raise GenericError(f"The store of images {WHY_ANOTHER}. {ADVICE}")
