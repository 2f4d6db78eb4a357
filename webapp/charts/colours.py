"""Which model has which place in the palette: no two share one while there are places, and none loses its own.

A place that hangs on the name alone is the same for everyone, but of six names in eight places two fall together nine
times in ten. So a place is given to a model when it is first seen, and remembered across restarts. Dashboards that
see the same models for the first time give the same places.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from webapp import whole_file
from webapp.charts.palette import PLACES, colour_index, preference

log = logging.getLogger(__name__)

#: Models whose places are remembered; beyond, those that were first seen longest ago are forgotten.
MOST_MODELS = 500

#: A model that nobody serves is not looked for again for this long.
_LOOK_AGAIN_SECONDS = 1.0


class Colours:
    """Places by model, in one JSON file; kept in memory alone without a path. Safe to use from many threads."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._places = self._read()
        #: When a model was last looked for in vain.
        self._absent: dict[str, float] = {}

    def of(self, model: str, served: Callable[[], Iterable[str]] = tuple) -> int:
        """The place of a model. `served`: all models of the fleet now, asked where this one has no place yet.

        A model that is not served, such as one of the past, has the place that its name alone gives, and may share it.
        """
        place = self._places.get(model)
        if place is None and self._clock() - self._absent.get(model, float("-inf")) >= _LOOK_AGAIN_SECONDS:
            self._give(sorted(set(served())))
            place = self._places.get(model)
            if place is None:
                self._miss(model)
        return colour_index(model) if place is None else place

    def _miss(self, model: str) -> None:
        with self._lock:
            if len(self._absent) >= MOST_MODELS:
                self._absent = {}
            self._absent[model] = self._clock()

    def _give(self, served: list[str]) -> None:
        with self._lock:
            fresh = [model for model in served if model not in self._places][:MOST_MODELS]
            if not fresh:
                return
            uses = Counter(self._places[model] for model in served if model in self._places)
            places = dict(self._places)
            for model in fresh:
                wanted = preference(model)
                places[model] = min(wanted, key=lambda place: (uses[place], wanted.index(place)))
                uses[places[model]] += 1
            self._places = dict(list(places.items())[-MOST_MODELS:])
            self._write()

    def _read(self) -> dict[str, int]:
        if self._path is None:
            return {}
        try:
            found = json.loads(self._path.read_text("utf-8"))
            return {str(model): int(place) % PLACES for model, place in list(found.items())[-MOST_MODELS:]}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            log.warning("%s: cannot be read, models get their colours anew: %s", self._path, error)
        return {}

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            whole_file.replace(self._path, json.dumps(self._places, indent=1))
        except OSError as error:
            log.warning("%s: the colours of models cannot be written: %s", self._path, error.strerror)
