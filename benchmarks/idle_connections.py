"""Response times of a client, without and with 10,000 idle connections of others: the 99th percentile.

`python -m benchmarks.idle_connections`; it starts its own MongoDB. The attackers connect, send the beginning of
a request, and reconnect 20 s after their connection was closed.
"""

import asyncio
from contextlib import suppress
from statistics import median
from typing import Final

from rich.console import Console

from benchmarks.api_alone import apis

ATTACKERS: Final = 10_000
REQUESTS: Final = 200
TURNS: Final = 3


async def main() -> None:
    """Measure in turns, and print the figures."""
    out = Console(highlight=False)
    async with apis(out.print, "none") as (api,):
        ratios = []
        for _ in range(TURNS):
            quiet = await api.p99_ms(REQUESTS)
            attack = asyncio.create_task(_attack(api.port))
            await asyncio.sleep(5)  # until most of them are connected
            attacked = await api.p99_ms(REQUESTS)
            attack.cancel()
            await asyncio.wait([attack])
            ratios.append(attacked / quiet)
            out.print(f"p99 without attack {quiet:.1f} ms, under attack {attacked:.1f} ms: {ratios[-1]:.2f} times")
        out.print(f"median: {median(ratios):.2f} times")


async def _attack(port: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(ATTACKERS):
            group.create_task(_attacker(port))


async def _attacker(port: int) -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"POST /api/customerReviews HTTP/1.1\r\nhost: localhost\r\n")
                await reader.read()
            finally:
                writer.close()
        await asyncio.sleep(20)


if __name__ == "__main__":
    asyncio.run(main())
