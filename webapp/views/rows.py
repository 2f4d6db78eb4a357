"""Rows of the nodes' table, each rendered once for as long as nothing on it changes but the age."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from flask import current_app, url_for
from markupsafe import Markup

from webapp import formats
from webapp.fleet.nodes import Node
from webapp.overview.selection import Selection
from webapp.overview.trends import Trend

#: Takes the place of the age in a row that is kept. No text of a node holds it: NUL is replaced where texts come in.
AGE = Markup("\x00")

_Version = tuple[Any, ...]
#: What comes before and after the age; None where the row shows none.
Kept = dict[str, tuple[_Version, Markup, Markup | None]]


class Rows:
    """Renders the rows of one table, with those of the rendering before at hand (`before`)."""

    def __init__(self, before: Kept, selection: Selection, alerting: Counter[str], trend: Callable[[Node], Trend]) -> None:
        """`alerting`: alerts that fire, by node."""
        self._before = before
        self._selection = selection
        self._alerting = alerting
        self._trend = trend
        self._hrefs: dict[tuple[str, str], str] = {}
        self._node_href = url_for("pages.node", name=AGE).split("%00")
        self._quoted = current_app.url_map.converters["name"](current_app.url_map).to_url
        #: The rows of this rendering, for the next one.
        self.kept: Kept = {}

    def row(self, node: Node, render: Callable[..., Markup], shown: Sequence[str] = ()) -> Markup:
        """`render` gets node, trend, number of alerts, `shown`, this, and AGE, which it writes where the age belongs."""
        trend, alerts = self._trend(node), self._alerting[node.name]
        conflict = node.conflict and (node.conflict.agent_id, node.conflict.source)
        version: _Version = (node.state, node.numbers is None, conflict, node.note, alerts, trend, node.measurement)
        known = self._before.get(node.name)
        # A node whose numbers are left out says on its row for how long: it is rendered each time.
        if known is None or node.numbers is None or known[0][-1] is not node.measurement or known[0] != version:
            before, age, after = render(node, trend, alerts, shown, self, AGE).partition(AGE)
            known = version, before, after if age else None
        self.kept[node.name] = known
        if known[2] is None:  # a table without the age
            return known[1]
        return known[1] + Markup(formats.duration(node.heard_s)) + known[2]  # noqa: S704 - digits and a unit

    def node_href(self, name: str) -> str:
        """The address of a node's page, as `url_for` has it."""
        return self._quoted(name).join(self._node_href)

    def label_href(self, label: str, value: str) -> str:
        """The address of this table with a label switched on or off."""
        known = self._hrefs.get((label, value))
        if known is None:
            arguments: dict[str, Any] = self._selection.with_label(label, value).arguments
            known = url_for("pages.cluster", **arguments)
            self._hrefs[label, value] = known
        return known
