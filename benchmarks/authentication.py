"""The cost of checking tokens: requests per second with `jwt` and with `none`, in turns, and CPU time per request.

`python -m benchmarks.authentication`; it starts its own MongoDB.
"""

import asyncio
from statistics import median
from time import perf_counter
from typing import Final

from rich.console import Console

from benchmarks.api_alone import QUERIES, Api, apis
from benchmarks.comparison import paired, turns
from benchmarks.http_load import rate
from benchmarks.processes import cpu_s

ROUNDS: Final = 10
ROUND_S: Final = 2.0


async def load(api: Api, query: str) -> tuple[float, float]:
    """Requests per second in one round, and milliseconds of CPU time per request."""
    request = api.request(query)
    started, before = perf_counter(), cpu_s(api.process.pid)
    per_second = await rate(api.port, lambda _: request, seconds=ROUND_S, status=200)
    requests = per_second * (perf_counter() - started)
    return per_second, (cpu_s(api.process.pid) - before) / requests * 1_000


async def main() -> None:
    """Run all rounds, and print the results."""
    out = Console(highlight=False)
    async with apis(out.print, "none", "jwt") as running:
        modes = {api.mode: api for api in running}
        for query in QUERIES:
            rounds: dict[str, list[tuple[float, float]]] = {mode: [] for mode in modes}
            for order in turns(ROUNDS, modes):
                for mode in order:
                    rounds[mode].append(await load(modes[mode], query))
            rates = {mode: [rate for rate, _ in of] for mode, of in rounds.items()}
            cpu_ms = {mode: median(cpu for _, cpu in of) for mode, of in rounds.items()}
            out.print(f"{query}: requests per second, median of {ROUNDS} rounds in turns")
            for mode in modes:
                out.print(f"  {mode:<5} {median(rates[mode]):8.0f}/s   CPU {cpu_ms[mode]:.3f} ms per request")
            out.print(f"  jwt/none, median of pairs: {median(paired(rates['jwt'], rates['none'])):.2f}")
            out.print(f"  none/jwt, CPU time: {cpu_ms['none'] / cpu_ms['jwt']:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
