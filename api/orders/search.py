"""The order search request, and the query that it becomes."""

from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from api.web.cursors import cursor, position_in, unknown_cursor
from api.web.paging import DEFAULT_TAKE, After
from api.web.problems import invalid_at
from domain.ratings import Entity
from messaging.schemas import MAX_ITEMS, Id, Message, OptionalId
from storage.keyset import SortValue
from storage.orders.search import OrderPage, OrderPosition, OrderSearch

_MOST_TAKEN: Final = 100
"""Maximum number of orders on a page: an order can have 10,000 lines."""


class OrderSearchRequest(Message):
    """Criteria of a list of orders. A field that is null, empty or missing doesn't restrict the list."""

    ids: Annotated[list[Id] | None, Field(max_length=MAX_ITEMS, description="Ids of orders")] = None
    customer_id: Annotated[OptionalId, Field(description="Id of a customer")] = None
    number: Annotated[OptionalId, Field(description="Exact number of the order")] = None
    keyword: Annotated[OptionalId, Field(description="The exact id or number of the order, or id of the customer")] = (
        None
    )
    store_id: Annotated[OptionalId, Field(description="Id of a store")] = None
    entity_type: Annotated[
        OptionalId,
        Field(
            description="With `entityId`: each order gets `provesPurchase`, true if it proves a purchase of this object"
        ),
    ] = None
    entity_id: Annotated[OptionalId, Field(description="Required together with `entityType`")] = None
    take: Annotated[int, Field(ge=1, le=_MOST_TAKEN, description="Maximum number of results")] = DEFAULT_TAKE
    after: After = None

    @property
    def bought(self) -> Entity | None:
        """The object whose purchases are of interest. Raises ProblemError if only its type or only its id is given."""
        if self.entity_type and self.entity_id:
            return Entity(self.entity_type, self.entity_id)
        if self.entity_type:
            raise invalid_at("/entityId", "missing", "Required together with `entityType`")
        if self.entity_id:
            raise invalid_at("/entityType", "missing", "Required together with `entityId`")
        return None

    def criteria(self) -> OrderSearch:
        """The search to run. Raises ProblemError if the cursor isn't of this list."""
        return OrderSearch(
            ids=self.ids or None,
            customer_id=self.customer_id,
            number=self.number,
            keyword=self.keyword,
            store_id=self.store_id,
            after=_position(position_in(self.after, self._list())) if self.after else None,
            take=self.take,
        )

    def next_page(self, page: OrderPage) -> str | None:
        """The `after` of the next page; None after the last one."""
        if page.end is None:
            return None
        modified = page.end.modified
        return cursor([modified and modified.isoformat(), page.end.id], self._list())

    def _list(self) -> Any:
        """The description of the list that its cursors belong to."""
        fields = {"ids", "customer_id", "number", "keyword", "store_id"}
        return ["orders", self.model_dump(mode="json", include=fields, exclude_none=True)]


def _position(values: list[SortValue]) -> OrderPosition:
    match values:
        case [None, str(id)]:
            return OrderPosition(None, id)
        case [str(modified), str(id)]:
            try:
                moment = datetime.fromisoformat(modified)
            except ValueError:
                raise unknown_cursor() from None
            if moment.tzinfo:
                return OrderPosition(moment, id)
    raise unknown_cursor()


ORDER_SEARCH: TypeAdapter[OrderSearchRequest] = TypeAdapter(OrderSearchRequest)
