"""One run: clusters, processes, load, faults and the final comparison."""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from tests.chaos.actors import Actor, World
from tests.chaos.check_repeats import changed_since, rows
from tests.chaos.checker import Checker
from tests.chaos.clients import Ledger, NeverAppliedError, NotAcknowledgedError, clients
from tests.chaos.cluster import Cluster, running_cluster
from tests.chaos.difference import Difference, describe
from tests.chaos.faults import Stage, end_reminders
from tests.chaos.fleet import EndedByItselfError, Fleet, running_fleet
from tests.chaos.growth import GROWTHS, obstacle_to_growth
from tests.chaos.model import Model
from tests.chaos.plan import KINDS, LONG, Plan, Result
from tests.chaos.ratings_watch import INTERVAL_S as INTERVAL_OF_RATINGS_S
from tests.chaos.ratings_watch import RatingsWatch
from tests.chaos.rules import expire_holds
from tests.chaos.soak import INTERVAL_S, Soak
from tests.chaos.stores import set_up_stores
from tests.chaos.upgrades import UPGRADES, migrate, upgrade
from tests.chaos.versions import NoVersionBeforeError, Version, version_before
from tests.chaos.work import all_actors, missing_deeds
from tests.support.targeting import found_in

MANY_LOOKS = 10
"""Number of looks at the ratings of which a fault can't have ended all."""
MOST_LAG = 4_000
"""Number of unread records from which the clients wait until there are half as many."""


async def run_chaos(plan: Plan, folder: Path, report: Callable[[str], None]) -> Result:
    """Run a plan. Raises MissingPartError where Apache Kafka can't run."""
    result = Result(plan.seed)
    report(f"Seed {plan.seed}")
    before = find_version_before(plan, folder, result) if plan.upgrades else None
    began = monotonic()
    async with running_cluster(folder, with_disk="disk-full" in plan.kinds) as cluster:
        report(f"Clusters ready after {monotonic() - began:.0f} s")
        async with running_fleet(cluster.servers, folder, plan.processes, before) as fleet:
            version = f" with the code of {before.name}" if before else ""
            report(f"{len(fleet.processes)} processes{version} are ready after {monotonic() - began:.0f} s")
            ledger = Ledger()
            kafka, prefix = cluster.servers.kafka, fleet.service.prefix
            async with clients(fleet.facades, kafka, prefix, ledger) as (http, upstream):
                series = f"s{plan.seed}"
                hot = [f"{series}-hot{n}" for n in range(20)]
                holds, is_mixed = partial(expire_holds, fleet.service), before is not None
                world = World(http, upstream, ledger, Model(), hot, series, holds, plan.batch, is_mixed)
                run = Run(plan, report, result, cluster, fleet, world)
                await run.execute()
    return result


def find_version_before(plan: Plan, folder: Path, result: Result) -> Version | None:
    """The version before; None without one, and its faults are skipped with the reason."""
    try:
        before = version_before(plan.before, folder)
    except NoVersionBeforeError as error:
        result.skipped |= {kind: str(error) for kind in UPGRADES if kind in plan.kinds}
        return None
    result.before = before.name
    return before


@dataclass
class Run:
    """A run whose servers and processes are ready."""

    plan: Plan
    report: Callable[[str], None]
    result: Result
    cluster: Cluster
    fleet: Fleet
    world: World
    turns: int = 0
    """Number of faults so far, not counting those that happened during others."""

    began: float = field(default_factory=monotonic)
    soak: Soak = field(default_factory=Soak)
    ratings: RatingsWatch = field(default_factory=RatingsWatch)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seconds(self) -> float:
        return monotonic() - self.began

    @property
    def is_done(self) -> bool:
        enough = self.turns >= self.plan.faults
        return (enough and self.world.ledger.acknowledged >= self.plan.commands) or self.seconds > self.plan.seconds

    async def execute(self) -> None:
        """Run load and faults, then compare; redeliver everything and compare again."""
        await set_up_stores(self.world.http, self.world.model)
        watching = [asyncio.create_task(each) for each in (self.watch(), self.measure())]
        under_load = asyncio.create_task(self.ratings.run(self.fleet.service))
        watching.append(under_load)
        actors = all_actors(self.plan, self.world)
        acting = [asyncio.create_task(actor.act(self.is_over, self.plan.pause_s)) for actor in actors]
        rng = random.Random(f"{self.plan.seed}/faults")
        world = self.world
        stage = Stage(
            *(self.cluster, self.fleet, rng, world.model),
            disturb=lambda: self.disturb(stage),
            batch=self.plan.batch,
            partitions=world.partitions,
        )
        try:
            await self.inject_faults(stage)
            if self.fleet.before is not None and self.fleet.is_this_version:
                await migrate(stage)
                await stage.pause(10.0, 15.0)
        except (EndedByItselfError, NotAcknowledgedError, NeverAppliedError, AssertionError) as error:
            self.add_failure(error)
        self.is_over.set()
        self.world.may_send.set()
        await self.wait_for(acting)
        under_load.cancel()
        self.add_rating_differences()
        self.result.undone = [*self.missing_work(actors)]
        ledger, self.result.seconds = self.world.ledger, self.seconds
        self.result.acknowledged, self.result.unknown = ledger.acknowledged, ledger.unknown
        self.result.commands_by_kind = dict(ledger.by_kind.most_common())
        self.report(f"{self.seconds:.0f} s: the load is over, {ledger.acknowledged} commands acknowledged")
        if not self.result.failures:
            try:
                await self.compare(stage)
                before = await rows(self.world.http) if self.result.is_right else None
                # Not before the comparison: a redelivery could repair a loss.
                await self.wait_for([asyncio.create_task(actor.redeliver_all()) for actor in actors])
                if before is not None and self.result.is_right:
                    await self.compare(stage)
                    # The version before may have defects that this one hasn't.
                    if self.fleet.is_this_version:
                        self.add_differences(await changed_since(self.world.http, before))
                if not self.fleet.is_this_version:
                    await upgrade(stage)
                    await self.compare(stage)
            except (EndedByItselfError, NotAcknowledgedError, AssertionError) as error:
                self.add_failure(error)
        for task in watching:
            task.cancel()
        for ended in await asyncio.gather(*watching, return_exceptions=True):
            if isinstance(ended, Exception):
                self.add_failure(ended)
        self.result.failures += ledger.unexpected[:20]
        self.result.failures += map(str, found_in(self.fleet.untargeted))
        self.result.soak = self.soak.document()

    async def wait_for(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait until these clients are done, and record their errors."""
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, BaseException):
                self.add_failure(ended)

    def add_failure(self, error: BaseException) -> None:
        """Record an error that ended the faults or a client."""
        self.result.failures.append(f"{type(error).__name__}: {error}")
        if isinstance(error, NeverAppliedError):
            self.result.differences["lost"] += 1

    def missing_work(self, actors: Sequence[Actor]) -> Iterator[str]:
        """Planned faults that didn't happen, clients that sent nothing, and kinds of commands that no client of a class
        sent: a run that does little finds little."""
        if self.turns < self.plan.faults:
            yield f"{self.turns} faults of {self.plan.faults} in {self.seconds:.0f} s; skipped: {self.result.skipped}"
        if self.plan.faults >= len(self.plan.kinds):
            done = self.result.faults.keys() | self.result.skipped.keys()
            yield from (f"the fault {kind} didn't happen" for kind in self.plan.kinds if kind not in done)
        if self.seconds > MANY_LOOKS * INTERVAL_OF_RATINGS_S and not self.ratings.looks:
            yield "ratings were never compared under load"
        yield from missing_deeds(actors, self.world.ledger)

    async def watch(self) -> None:
        """Check that no process ends by itself; end the run if one does."""
        while True:
            try:
                self.fleet.check()
            except EndedByItselfError as error:
                self.result.failures.append(f"{type(error).__name__}: {error}")
                self.is_over.set()
                return
            await asyncio.sleep(2)  # supervisors don't check more often

    async def measure(self) -> None:
        """Take samples for the soak figures, and let the clients wait while the workers are far behind."""
        may_send = self.world.may_send
        while True:
            await self.soak.sample(self.fleet, self.seconds)
            lag = self.soak.lag[-1][1] if self.soak.lag else 0
            if lag > MOST_LAG and may_send.is_set() and not self.is_over.is_set():
                may_send.clear()
                self.report(f"{self.seconds:.0f} s: the clients wait, as {lag:.0f} records are unread")
            elif lag < MOST_LAG / 2 or self.is_over.is_set():
                may_send.set()
            await asyncio.sleep(INTERVAL_S)

    def possible_kinds(self, stage: Stage) -> list[str]:
        """The kinds of faults that can happen here; the others are recorded as skipped, with the reason."""
        kinds = [kind for kind in self.plan.kinds if kind not in self.result.skipped]
        if "disk-full" in kinds and not stage.cluster.disk:
            kinds.remove("disk-full")
            self.result.skipped["disk-full"] = "can't mount a file system here (needs root)"
        if any(kind in GROWTHS for kind in kinds) and (reason := obstacle_to_growth(stage)):
            kinds = [kind for kind in kinds if kind not in GROWTHS]
            if not any(kind in GROWTHS for kind in self.result.faults):
                self.result.skipped |= dict.fromkeys(GROWTHS, reason)
        return kinds

    async def inject_faults(self, stage: Stage) -> None:
        """Run one fault after the other. Each kind has its turn, in an order that follows from the seed."""
        kinds = self.possible_kinds(stage)
        bag: list[str] = []
        while kinds and not self.is_done and not self.is_over.is_set():
            if not self.plan.faults:
                await asyncio.sleep(1)  # a run without faults lasts until its commands or seconds are over
                continue
            bag = bag or order_version_changes(stage.rng.sample(kinds, len(kinds)))
            await self.inject(stage, bag.pop())
            self.turns += 1
            await stage.pause(*self.plan.between_s)

    async def inject(self, stage: Stage, kind: str) -> None:
        """Run one fault, and measure the time until commands are applied again."""
        began = self.seconds
        await KINDS[kind](stage)
        ended = self.seconds
        self.result.faults[kind] += 1
        recovery = ""
        if self.plan.waits_for_recovery:
            await self.probe()
            recovered = self.seconds - ended
            self.result.recovery[kind] = max(recovered, self.result.recovery.get(kind, 0.0))
            recovery = f", applied again after {recovered:.1f} s"
        acknowledged = self.world.ledger.acknowledged
        self.report(f"{ended:.0f} s: {kind} ({ended - began:.1f} s{recovery}), {acknowledged} acknowledged")

    async def disturb(self, stage: Stage) -> None:
        """Run another fault during a long one."""
        kinds = [kind for kind in self.possible_kinds(stage) if kind not in LONG]
        if kinds and not self.is_over.is_set():
            await self.inject(stage, stage.rng.choice(kinds))

    async def probe(self) -> None:
        """Wait until a submission and an approval have been applied."""
        number = self.result.faults.total()
        review = {"EntityId": "probe", "EntityType": "Product", "review": "Still there?", "rating": 5}
        answer = await self.world.http.wait_for(
            "POST", "/api/customerReviews", [review], key=f"{self.world.series}-probe{number}"
        )
        (id,) = answer.body["ids"]
        self.world.model.submit(id, review, answer.command)
        answer = await self.world.http.wait_for("POST", "/api/customerReviews/approve", [id], key=f"{id}-approved")
        self.world.model.moderate("approve", id, command=answer.command)
        self.world.ledger.acknowledge("probe", id, id)

    @property
    def checker(self) -> Checker:
        return Checker(self.world.http, self.fleet, self.world.model)

    def add_differences(self, differences: Sequence[Difference]) -> None:
        """Count differences, and report the first ones."""
        self.result.differences.update(difference.kind for difference in differences)
        if differences:
            self.report(describe(differences, self.world.ledger))

    def add_rating_differences(self) -> None:
        """Record the ratings that differed from the reviews under load."""
        watch = self.ratings
        self.report(
            f"{self.seconds:.0f} s: ratings compared {watch.looks} times under load, missed {watch.missed} times"
        )
        self.add_differences([Difference("wrong", *each) for each in watch.differences])

    async def compare(self, stage: Stage) -> None:
        """Compare the service with the model, and verify the ratings with `plaudit ratings verify`."""
        await self.checker.unconsumed()
        await end_reminders(stage)
        self.add_differences(await self.checker.differences())
        verified = await self.fleet.service.run("ratings", "verify", code=None)
        if verified.returncode != 0:
            self.result.failures.append(f"ratings verify: {verified.stdout[-1_000:]}")
        self.result.counts = self.world.model.counts()
        self.report(f"{self.seconds:.0f} s: compared {self.result.counts}")


def order_version_changes(bag: list[str]) -> list[str]:
    """The kinds, to be popped from the end, with changes of version in the order in which they alternate."""
    changes = iter([kind for kind in reversed(UPGRADES) if kind in bag])
    return [next(changes) if kind in UPGRADES else kind for kind in bag]
