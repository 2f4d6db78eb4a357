"""Names in addresses."""

from __future__ import annotations

from flask import Flask
from werkzeug.routing import BaseConverter


class NameConverter(BaseConverter):
    """Any name, slashes and line breaks included: `/nodes/<name:name>`."""

    regex = "(?s:.+)"
    part_isolating = False
    weight = 300

    def to_url(self, value: str) -> str:
        """A browser would go up at "/../": in such a name the slashes are encoded, so that it is one segment.

        >>> from werkzeug.routing import Map
        >>> [NameConverter(Map()).to_url(name) for name in ("a/b", "a/../b")]
        ['a/b', 'a%2F..%2Fb']
        """
        address = super().to_url(value)
        return address.replace("/", "%2F") if {".", ".."} & set(value.split("/")) else address


def take_any_name(app: Flask) -> None:
    """Let addresses hold any name of a node."""
    app.url_map.converters["name"] = NameConverter
    app.url_map.merge_slashes = False  # a node may be called "a//b"
