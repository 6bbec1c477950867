"""The clients of a run, and what each class of them must have sent."""

from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.actors import Actor, World
from tests.chaos.buyers import Buyer
from tests.chaos.clients import Ledger
from tests.chaos.cloud_events import CloudEventSender
from tests.chaos.decisions import Decider
from tests.chaos.feedback import Audience
from tests.chaos.images import Photographer
from tests.chaos.model import STATUS_AFTER
from tests.chaos.plan import Plan
from tests.chaos.purchases import Shopper
from tests.chaos.repeats import Repeater
from tests.chaos.restored import Mover
from tests.chaos.reviewers import Importer, Reviewer
from tests.chaos.rules import Critic, Ruled
from tests.chaos.viewers import Viewer

WORK: Mapping[type[Actor], Sequence[str]] = {
    Reviewer: ("submitted", "edited", *STATUS_AFTER, "delete", "moderated", "race", "wanted", "poison"),
    Importer: ("submitted", "edited", *STATUS_AFTER),
    Audience: ("approved", "decided", "deleted", "vote", "remove-vote", "reply", "remove-reply", "report"),
    Ruled: ("verdict",),
    Decider: ("submitted", "moderated", *STATUS_AFTER),
    Buyer: ("order", "create", "update", "rush"),
    Shopper: ("submitted", "order"),
    Photographer: ("uploaded", "images", "hide", "show"),
    Critic: ("end",),
    Mover: ("brought", "restored"),
    Repeater: ("repeated", "reused"),
    Viewer: ("viewed",),
    CloudEventSender: ("unnamed", "returned", "retold"),
}
"""Kinds of commands, by the first word in the ledger, that clients send."""
ENOUGH_TURNS = 200
"""Turns of all clients of a class in which each of its kinds of commands must have had its turn."""


def all_actors(plan: Plan, world: World) -> list[Actor]:
    """All clients of a run."""
    seed = plan.seed
    reviewers = [Reviewer(world, f"reviewer{n}", seed) for n in range(plan.reviewers)]
    importers = [Importer(world, f"importer{n}", seed) for n in range(plan.importers)]
    audiences = [Audience(world, f"audience{n}", seed) for n in range(plan.audiences)]
    ruled = [Ruled(world, f"ruled{n}", seed) for n in range(plan.importers)]
    deciders = [Decider(world, f"decider{n}", seed) for n in range(plan.deciders)]
    buyers = [Buyer(world, f"buyer{n}", seed) for n in range(plan.buyers)]
    others: list[Actor] = [Shopper(world, "shopper", seed), Photographer(world, "photographer", seed)]
    others += [Critic(world, "critic", seed), Mover(world, "mover", seed)]
    others += [Repeater(world, "repeater", seed), CloudEventSender(world, "events", seed)]
    others += [Viewer(world, "viewer", seed)]
    return [*reviewers, *importers, *audiences, *ruled, *deciders, *buyers, *others]


def missing_deeds(actors: Sequence[Actor], ledger: Ledger) -> Iterator[str]:
    """Clients that sent nothing, and kinds of commands that no client of a class sent."""
    for type_of_actor, words in WORK.items():
        turns = sum(actor.turns for actor in actors if type(actor) is type_of_actor)
        if turns >= ENOUGH_TURNS:
            name, sent = type_of_actor.__name__, ledger.by_sender
            yield from (f"{name}: no {word} in {turns} turns" for word in words if not sent[name, word])
    for actor in actors:
        if not actor.turns:
            yield f"{actor.name} sent nothing"
    if not ledger.acknowledged:
        yield "no command was acknowledged"
