"""The order in which a reader wants to see models, as the page's address holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from webapp.overview.models import Model


@dataclass(frozen=True)
class Column:
    """A column that can be sorted by; `value` is None where no engine reports it."""

    key: str
    title: str
    value: Callable[[Model], float | str | None]
    #: Largest first, at the first click.
    descending: bool = True


COLUMNS: tuple[Column, ...] = (
    Column("name", "Model", lambda model: model.name.casefold(), descending=False),
    Column("engines", "Engines", lambda model: model.engines.value),
    Column("nodes", "Nodes", lambda model: len(model.nodes)),
    Column("cores", "Cores", lambda model: model.cores.value),
    Column("memory", "Memory", lambda model: model.memory.value),
    Column("waiting", "Waiting", lambda model: model.waiting.value),
    Column("running", "Running", lambda model: model.running.value),
    Column("kv", "KV cache", lambda model: model.kv_cache.engine.kv_cache_usage_ratio if model.kv_cache else None),
    Column("tokens", "Tokens/s", lambda model: model.generated_tokens.value),
)
_COLUMNS = {column.key: column for column in COLUMNS}


@dataclass(frozen=True)
class Order:
    """Which models a reader wants to see, and in which order: all of it stands in the page's address."""

    text: str = ""
    sort: str = "name"
    descending: bool = False

    @classmethod
    def of(cls, query: Iterable[tuple[str, str]]) -> Order:
        """What an address's query asks for; values that mean nothing are dropped."""
        last = {name: value[:300] for name, value in query}
        sort = last.get("sort", "name")
        sort = sort if sort in _COLUMNS else "name"
        order = last.get("order")
        descending = order == "desc" if order in ("asc", "desc") else _COLUMNS[sort].descending
        return cls(last.get("q", "").strip(), sort, descending)

    @property
    def arguments(self) -> dict[str, str]:
        """The fewest parts of an address that ask for this order."""
        found = {"q": self.text} if self.text else {}
        if self.sort != "name" or self.descending:
            found["sort"] = self.sort
            if self.descending != _COLUMNS[self.sort].descending:
                found["order"] = "desc" if self.descending else "asc"
        return found

    def sorted_by(self, key: str) -> Order:
        """This order after a click on a column's head."""
        if key == self.sort:
            return replace(self, descending=not self.descending)
        return replace(self, sort=key, descending=_COLUMNS[key].descending)

    def apply(self, models: Sequence[Model]) -> list[Model]:
        """The models whose name holds every word, in order; those without a value to sort by come last."""
        words = self.text.casefold().split()
        chosen = [model for model in models if all(word in model.name.casefold() for word in words)]
        value = _COLUMNS[self.sort].value
        told = [(known, model) for model in chosen if (known := value(model)) is not None]
        told.sort(key=lambda item: item[0], reverse=self.descending)
        return [model for _, model in told] + [model for model in chosen if value(model) is None]
