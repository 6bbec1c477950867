"""The mark in the image store: files count as lost only in a store that has it."""

from obstore.exceptions import GenericError

from consumers.services import Services
from storage.images_mark import ADVICE, WHY_ANOTHER


async def mark_image_store(services: Services) -> None:
    """Mark the image store, once. A file has just been read from it, so it is the right one. Raises GenericError, as
    `check_image_store` does, if an unmarked store was used before and this isn't it."""
    if not await services.image_store_mark.is_written():
        await check_image_store(services)
        # Record it last: with a recorded mark that is missing, no file would ever count as lost.
        await services.image_files.mark()
        await services.image_store_mark.note_written()


async def check_image_store(services: Services) -> None:
    """Raises GenericError, as for an unavailable store, if the image store isn't the one used before: its missing files
    aren't lost then, but in the other store. The very first store is trusted."""
    if await services.image_store_mark.is_missing_in(services.image_files):
        raise GenericError(f"The image store {WHY_ANOTHER}. {ADVICE}")
