"""What a template writes, by its place: names with characters that a reader can't see are told apart on every page.

In text such a character is a box with its number; where there are no boxes (the title of a page or of an element, the
words of a choice) it is its number in brackets. In any other attribute it stays: addresses and forms hold what is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup, escape

from webapp.unseen import UNSEEN, all_seen, bracketed, number

#: What tells a place in HTML: a comment, the begin of a tag, of an attribute's value, a quotation mark, the end of a tag.
_PIECES = re.compile(r"""<!--.*?-->|<(/?[a-zA-Z][\w-]*)|([\w-]+)=(["'])|(["'])|(>)""", re.DOTALL)

#: Attributes that are read, and elements whose text has no elements in it.
_READ = ("title", "aria-label", "placeholder")
_PLAIN = ("title", "option")
_CODE = ("script", "style")


class Place:
    """Where in a template's HTML its next expression stands."""

    def __init__(self) -> None:
        self._tag = self._attribute = self._quote = ""
        #: The one that was opened last.
        self.element = ""

    def read(self, html: str) -> None:
        for piece in _PIECES.finditer(html):
            tag, attribute, opening, quote, end = piece.groups()
            if self._quote:
                if self._quote in (opening, quote):
                    self._quote = ""
            elif tag:
                self._tag = tag.lower()
            elif self._tag and attribute:
                self._attribute, self._quote = attribute, opening
            elif self._tag and end:
                self.element, self._tag = "" if self._tag.startswith("/") else self._tag, ""

    @property
    def filter(self) -> str:
        """The filter for what is written here, "" for none."""
        if self._tag:
            return "bracketed" if self._quote and self._attribute in _READ else ""
        if self.element in _CODE:
            return ""
        return "bracketed" if self.element in _PLAIN else "lined" if self.element == "pre" else "boxed"


class Placing(Extension):
    """Hands every `{{ expression }}` to the filter of its place, when the template is compiled."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.filters.update(boxed=_boxed, lined=_lined, bracketed=_bracketed)

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        place = Place()
        filter = before = ""
        for token in stream:
            if token.type == "data":
                place.read(token.value)
            elif token.type == "name" and before == "block":
                place.element = "title" if token.value == "title" else ""
            elif token.type == "variable_end" and filter:
                yield Token(token.lineno, "rparen", ")")
                yield Token(token.lineno, "pipe", "|")
                yield Token(token.lineno, "name", filter)
            yield token
            if token.type == "variable_begin" and (filter := place.filter):
                yield Token(token.lineno, "lparen", "(")
            before = token.value


def _boxed(value: Any) -> Any:
    if type(value) is not str or all_seen(value):
        return value
    return _with_boxes(value, "")


def _lined(value: Any) -> Any:
    """In text that keeps its lines and spaces."""
    return _with_boxes(value, "\n\t ") if type(value) is str else value


def _bracketed(value: Any) -> Any:
    return bracketed(value) if type(value) is str else value


def _with_boxes(text: str, but: str) -> Markup:
    parts = []
    end = 0
    for found in UNSEEN.finditer(text):
        if found[0] not in but:
            parts += [escape(text[end : found.start()]), _BOX.format(number(found[0]))]
            end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


_BOX = Markup('<code class="unseen" title="a character that can\'t be seen">{}</code>')
