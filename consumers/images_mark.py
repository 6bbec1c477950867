"""The mark in the image store: files count as lost, and are written, only in a store that has it."""

from consumers.services import Services


async def mark_image_store(services: Services) -> None:
    """Mark the image store, once. A file has just been read from it, so it is the right one unless another one was
    used before: raises GenericError, as `check_image_store` does, for an unmarked store then."""
    await check_image_store(services)
    if not await services.image_store_mark.is_written():
        # Record it last: with a recorded mark that is missing, no file would ever count as lost.
        await services.image_files.mark()
        await services.image_store_mark.note_written()


async def check_image_store(services: Services) -> None:
    """Raises GenericError, as for an unavailable store, if the image store isn't the one used before."""
    await services.image_store_mark.check(services.image_files)
