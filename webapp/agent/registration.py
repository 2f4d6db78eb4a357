"""Keeps an engine registered with a control plane: registers, heartbeats, registers again, unregisters."""

from __future__ import annotations

import logging
import threading
from typing import Any

from webapp.agent.client import Client, Unanswered
from webapp.agent.lines import one_line

log = logging.getLogger("enginehouse.registration")

#: Seconds between heartbeats where the control plane does not say, and the bounds of what it may say.
USUAL_INTERVAL_S = 10.0
_SHORTEST_S, _LONGEST_S = 0.5, 60.0

#: Seconds until the next try after a failure; the last one is kept.
_PAUSES_S = (1.0, 2.0, 5.0, 10.0)


class Registration:
    """One engine's place in a control plane. `start` keeps it, `stop` gives it up."""

    def __init__(self, control_plane: Client, description: dict[str, Any]) -> None:
        """`description`: the body of /v1/instance/register."""
        self._control_plane = control_plane
        self._description = description
        #: As registered; before that as proposed.
        self.instance_id = str(description["instance_id"])
        self.interval_s = USUAL_INTERVAL_S
        #: Set at the first success.
        self.registered = threading.Event()
        self._is_known = False
        self._failures = 0
        self._wake = threading.Condition()
        self._is_stopped = False
        self._is_forgotten = False
        self._thread = threading.Thread(target=self._run, name="registration", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def forgotten(self) -> None:
        """The control plane said that it doesn't know the engine: register again, now."""
        with self._wake:
            self._is_forgotten = True
            self._wake.notify()

    def stop(self) -> None:
        """Unregister, in the background; `wait` waits for it."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify()

    def wait(self, seconds: float) -> None:
        """Waits until `stop` is done, for `seconds` at most."""
        self._thread.join(seconds)

    def step(self) -> float:
        """Registers, or heartbeats if that is done; seconds until the next step."""
        try:
            if not self._is_known:
                self._register()
            else:
                self._heartbeat()
        except Unanswered as error:
            self._failures += 1
            if self._failures == 1 or self._failures % 30 == 0:
                log.warning("%s of %r failed: %s", "heartbeat" if self._is_known else "registration", self.instance_id, error)
            return _PAUSES_S[min(self._failures, len(_PAUSES_S)) - 1]
        if self._failures:
            log.info("%s is reached again after %d failures", self._control_plane.name, self._failures)
        self._failures = 0
        return self.interval_s if self._is_known else 0.0

    def _register(self) -> None:
        answer = self._control_plane.post_ok("/v1/instance/register", self._description)
        given = answer.get("instance_id")
        if answer.get("ok") is False or not isinstance(given, str) or not given:
            reason = one_line(str(answer.get("error", "no instance_id in the answer")))
            raise Unanswered(f"{self._control_plane.name} did not register it: {reason}")
        self.instance_id = given
        interval = answer.get("heartbeat_interval_s")
        if isinstance(interval, (int, float)) and not isinstance(interval, bool) and interval > 0:
            self.interval_s = min(max(float(interval), _SHORTEST_S), _LONGEST_S)
        log.info("%r is registered with %s", self.instance_id, self._control_plane.name)
        self._is_known = True
        self.registered.set()

    def _heartbeat(self) -> None:
        answer = self._control_plane.post_ok("/v1/instance/heartbeat", {"instance_id": self.instance_id})
        if answer.get("ok") is False:
            # It was restarted, or forgot us, or wants what only a registration says.
            self._is_known = False

    def _run(self) -> None:
        pause_s = 0.0
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._is_stopped or self._is_forgotten, pause_s)
                if self._is_stopped:
                    break
                if self._is_forgotten:
                    self._is_known = self._is_forgotten = False
            pause_s = self.step()
        if self._is_known:
            try:
                self._control_plane.post_ok("/v1/instance/unregister", {"instance_id": self.instance_id})
                log.info("%r is unregistered", self.instance_id)
            except Unanswered as error:
                log.warning("%r could not be unregistered: %s", self.instance_id, error)
