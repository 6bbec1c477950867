"""Checks mail commands."""

from collections import defaultdict

from tests.chaos.difference import Difference, Kind
from tests.chaos.model import Model
from tests.support.service import Service


async def wrong_mails(service: Service, model: Model) -> list[Difference]:
    """Each customer was sent the expected number of mails, counted by distinct ids."""
    ids: dict[str, set[str]] = defaultdict(set)
    for mail in await service.values("mail-commands"):
        ids[mail["customerId"]].add(mail["id"])
    found = []
    for customer in ids.keys() | model.mails.keys():
        sent, expected = len(ids[customer]), model.mails[customer]
        if sent != expected:
            kind: Kind = "lost" if sent < expected else "duplicated"
            found.append(Difference(kind, customer, f"{sent} mails, expected {expected}"))
    return found
