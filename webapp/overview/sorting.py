"""Tables that a reader sorts by their columns: the order is in the page's address as `sort` and `order`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Column(Generic[Item]):
    """A column that can be sorted by; `value` is None where it isn't known."""

    key: str
    title: str
    value: Callable[[Item], float | str | None]
    #: Largest first, at the first click.
    descending: bool = True


class Order(NamedTuple):
    """The key of the column by which rows are sorted, and whether the largest comes first."""

    key: str
    descending: bool


class Columns(Generic[Item]):
    """A table's columns. The first one names the row: rows are sorted by it unless a reader asks for another."""

    def __init__(self, *columns: Column[Item]) -> None:
        self.all = columns
        self._by_key = {column.key: column for column in columns}

    def __getitem__(self, key: str) -> Column[Item]:
        return self._by_key[key]

    def order_of(self, query: Mapping[str, str]) -> Order:
        """The order that an address's query asks for; what means nothing is passed over."""
        key = query.get("sort", "")
        column = self._by_key.get(key, self.all[0])
        order = query.get("order")
        return Order(column.key, order == "desc" if order in ("asc", "desc") else column.descending)

    def arguments(self, order: Order) -> dict[str, str]:
        """The fewest parts of an address that ask for this order."""
        usual = self._by_key[order.key].descending
        if order == (self.all[0].key, self.all[0].descending):
            return {}
        return {"sort": order.key} | ({"order": "desc" if order.descending else "asc"} if order.descending != usual else {})

    def after_click(self, key: str, order: Order) -> Order:
        """The order after a click on the head of the column `key`."""
        return Order(key, not order.descending if key == order.key else self._by_key[key].descending)

    def sort(self, rows: Iterable[Item], order: Order) -> list[Item]:
        """The rows in that order, equal ones by their first column; those without a value come last."""
        by_name: Sequence[Item] = sorted(rows, key=self.all[0].value)  # type: ignore[arg-type]  # names are always known
        values = list(map(self._by_key[order.key].value, by_name))
        known = [(value, row) for value, row in zip(values, by_name) if value is not None]
        known.sort(key=lambda pair: pair[0], reverse=order.descending)
        return [row for _, row in known] + [row for value, row in zip(values, by_name) if value is None]
