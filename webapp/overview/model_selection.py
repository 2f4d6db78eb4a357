"""Which models a reader wants to see, and in which order: all of it is in the page's address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.overview.models import Model
from webapp.overview.sorting import Column, Columns, Order

COLUMNS: Columns[Model] = Columns(
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


@dataclass(frozen=True)
class ModelSelection:
    """Words of the name, and order. Values that mean nothing are dropped, so that an old link still shows models."""

    text: str = ""
    sort: str = "name"
    descending: bool = False

    @classmethod
    def of(cls, query: Iterable[tuple[str, str]]) -> ModelSelection:
        """The selection that an address's query asks for."""
        last = {name: value[:300] for name, value in query}
        return cls(last.get("q", "").strip(), *COLUMNS.order_of(last))

    @property
    def order(self) -> Order:
        return Order(self.sort, self.descending)

    @property
    def arguments(self) -> dict[str, str]:
        """The fewest parts of an address that ask for this selection."""
        return ({"q": self.text} if self.text else {}) | COLUMNS.arguments(self.order)

    def sorted_by(self, key: str) -> ModelSelection:
        """This selection after a click on a column's head."""
        return ModelSelection(self.text, *COLUMNS.after_click(key, self.order))

    def apply(self, models: Sequence[Model]) -> list[Model]:
        """The models whose name holds every word, in order; those without a value to sort by come last."""
        words = self.text.casefold().split()
        return COLUMNS.sort((model for model in models if all(word in model.name.casefold() for word in words)), self.order)
