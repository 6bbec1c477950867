"""The orders of one person with their returns: finding them, and forgetting the person in them."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from domain.addresses import bare_address
from domain.delivery import in_parts
from domain.orders import Order
from domain.privacy import is_another, is_of, part_in_return, without_person
from domain.returns import Return
from storage.database import Database, Session, in_transaction
from storage.orders.repository import COLLECTION, OrderRepository
from storage.returns.repository import ReturnRepository

_RETURNS_AT_ONCE: Final = 100


class PersonalOrders:
    """Finds the orders and returns of one customer, and forgets the customer in them. `damaged` names the returns in
    which they were forgotten although nothing else of them can be read."""

    def __init__(self, database: Database, customer_id: str) -> None:
        self._database = database
        self._customer = customer_id
        self._orders = OrderRepository(database)
        self._returns = ReturnRepository(database)
        self.damaged = set[str]()
        self._of_guest: list[str] | None = None

    async def all(self) -> list[Order]:
        """Their orders."""
        found = await self._orders.of_ids(await self.ids())
        return [found[id] for id in sorted(found)]

    async def returns(self) -> list[Return]:
        """The returns of their orders, and of anonymous orders that name them; of others' returns, their part."""
        ids = [each for order_id in await self.ids() for each in await self._returns.ids_of_order(order_id)]
        found = await self._returns.of_ids(ids)
        returns = {id: each for id in ids if isinstance(each := found.get(id), Return)}
        naming = await self._returns.of_ids(set(await self._returns.ids_naming(self._customer)) - returns.keys())
        stored = [each for each in naming.values() if isinstance(each, Return)]
        customers = await self._orders.customers({each.order_id for each in stored})
        for each in sorted(stored, key=attrgetter("id")):
            is_others = is_another(customers.get(each.order_id), self._customer)
            returns[each.id] = part_in_return(each, self._customer) if is_others else each
        return list(returns.values())

    async def ids(self) -> list[str]:
        """The ids of their orders and, if their id is a mail address, of orders that a guest made with it."""
        found = self._database[COLLECTION].find({"customerId": self._customer}, {"_id": 1})
        ids = [each["_id"] async for each in found]
        if self._of_guest is None:
            self._of_guest = await self._orders.of_guest(self._customer)
        return sorted([*ids, *self._of_guest])

    async def addresses(self) -> set[str]:
        """Their mail addresses: those of their orders, and their id, which may be one; as written and as in
        reports."""
        customers = (await self._orders.customers(await self.ids())).values()
        written = {self._customer, *(customer.email for customer in customers if customer.email)}
        return written | {bare_address(each) for each in written}

    async def forget(self) -> Mapping[str, int]:
        """Remove them from their orders, their words from the returns, and their name from the returns of others;
        returns the numbers of orders and returns.

        For each order, its returns in pages, then the order with the last ones and those that came meanwhile, each in
        one transaction: concurrent changes come before or after, and an interrupted order is still theirs.
        """
        orders, returns = 0, 0
        self._of_guest = None  # there may be more by now
        for id in await self.ids():
            early = (await self._returns.ids_of_order(id))[:-_RETURNS_AT_ONCE]
            returns += await self._forget_in_pages(early)
            returns += await in_transaction(self._database, partial(self._forget_order, id, set(early)))
            orders += 1
        returns += await self._forget_in_pages(await self._returns.ids_naming(self._customer))
        return {"orders": orders, "returns": returns}

    async def _forget_order(self, id: str, without: Collection[str], session: Session) -> int:
        customer = (await self._orders.customers([id], session)).get(id)
        if customer is None or not is_of(customer, self._customer):
            return 0
        returns = [each for each in await self._returns.ids_of_order(id) if each not in without]
        forgotten = await self._forget_in_returns(returns, session)
        await self._orders.forget_customer(id, session)
        return forgotten

    async def _forget_in_pages(self, ids: Iterable[str]) -> int:
        pages = in_parts(ids, _RETURNS_AT_ONCE)
        return sum([await in_transaction(self._database, partial(self._forget_in_returns, page)) for page in pages])

    async def _forget_in_returns(self, ids: Collection[str], session: Session) -> int:
        stored, damaged = await self._returns.readable(ids, session)
        order_ids = {each.order_id for each in stored} | set(damaged.values())
        customers = await self._orders.customers(order_ids, session)
        forgotten = [without_person(each, customers.get(each.order_id), self._customer) for each in stored]
        await self._returns.save(forgotten, session)
        for id, order_id in damaged.items():
            is_own = not is_another(customers.get(order_id), self._customer)
            await self._returns.forget_in_damaged(id, self._customer, session, with_texts=is_own)
            self.damaged.add(f"return {id}")
        return len(forgotten) + len(damaged)
