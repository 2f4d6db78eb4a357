"""Names in addresses."""

from __future__ import annotations

import re

from flask import Flask
from werkzeug.routing import BaseConverter

#: A segment that whoever asks takes for a step up the path, however it is encoded; and one that looks as if it was marked.
_STEP = re.compile(r"(?<![^/])~*\.\.?(?![^/])")

#: The mark before such a segment.
_MARK = re.compile(r"(?<![^/])~(?=~*\.\.?(?![^/]))")


class NameConverter(BaseConverter):
    """Any name, slashes and line breaks included: `/nodes/<name:name>`.

    A browser would go up at "/nodes/..", even at "/nodes/%2e%2e": such a segment is marked by a tilde before it.
    """

    regex = "(?s:.+)"
    part_isolating = False
    weight = 300

    def to_url(self, value: str) -> str:
        """
        >>> from werkzeug.routing import Map
        >>> [NameConverter(Map()).to_url(name) for name in ("a/b", "..", "a/../b", "~.", "~a")]
        ['a/b', '~..', 'a/~../b', '~~.', '~a']
        """
        return super().to_url(_STEP.sub(r"~\g<0>", value))

    def to_python(self, value: str) -> str:
        """
        >>> from werkzeug.routing import Map
        >>> [NameConverter(Map()).to_python(name) for name in ("a/b", "~..", "a/~../b", "~~.", "~a", "..")]
        ['a/b', '..', 'a/../b', '~.', '~a', '..']
        """
        return _MARK.sub("", value)


def take_any_name(app: Flask) -> None:
    """Let addresses hold any name of a node."""
    app.url_map.converters["name"] = NameConverter
    app.url_map.merge_slashes = False  # a node may be called "a//b"
