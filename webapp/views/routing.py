"""Names in addresses."""

from __future__ import annotations

from flask import Flask
from werkzeug.routing import BaseConverter


class NameConverter(BaseConverter):
    """Any name, slashes and line breaks included: `/nodes/<name:name>`."""

    regex = "(?s:.+)"
    part_isolating = False
    weight = 300


def take_any_name(app: Flask) -> None:
    """Let addresses hold any name of a node."""
    app.url_map.converters["name"] = NameConverter
    app.url_map.merge_slashes = False  # a node may be called "a//b"
