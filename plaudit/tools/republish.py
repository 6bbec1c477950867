"""`plaudit reviews republish`: all reviews anew to the topic `reviews`."""

from __future__ import annotations

import asyncio
from typing import Final

from consumers.reviews_relay import ReviewRelay
from messaging.topics import Topic
from plaudit.cli.terminal import Terminal
from plaudit.config import Settings
from plaudit.tools.servers import reached
from storage.pymongo_internals import cancel_and_wait
from storage.reviews_changes import RelayProgress

_PAUSE_S: Final = 0.2


async def republish(settings: Settings, out: Terminal) -> None:
    """Have all reviews published as they now are, and tombstones for what the topic holds beyond them.

    The worker that relays reviews does it; where none runs, this process. Cut short, the workers go on with it.
    """
    async with reached(settings, Topic.REVIEWS) as (database, _):
        relay = asyncio.create_task(ReviewRelay(database, settings.kafka_connection(), settings.topics).run())
        try:
            with out.status("Waiting for the relay of reviews") as status:
                notes = RelayProgress(database)
                request = await notes.request_republication()
                # A later request may have come instead.
                while ((progress := await notes.load()).done or "") < request:
                    if under_way := progress.republication:
                        status.update(f"Published {under_way.published} reviews")
                    if relay.done():
                        relay.result()
                    await asyncio.sleep(_PAUSE_S)
        finally:
            await cancel_and_wait(relay)
    out.tell({"done": True})
    out.print("All reviews are in the topic as they now are.")
