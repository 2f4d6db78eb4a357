"""How long a heartbeat was under way."""

from __future__ import annotations

from webapp.fleet.transit import Transit


def test_the_quickest_message_sets_the_measure():
    transit = Transit()
    assert transit.delay(1000.0, 50.0) == 0
    assert transit.delay(1010.0, 60.3) == 0.2999999999999545
    assert transit.delay(1020.0, 69.9) == 0


def test_a_reboot_starts_anew():
    transit = Transit()
    transit.delay(1_000_000.0, 50.0)
    assert transit.delay(30.0, 110.0) == 0


def test_a_machine_that_was_paused_is_late_for_two_minutes_only():
    transit = Transit()
    for second in range(0, 300, 10):
        transit.delay(1000.0 + second, float(second))
    delays = [transit.delay(1000.0 + second - 90, float(second)) for second in range(390, 600, 10)]
    assert delays[0] == 90
    assert delays[-1] == 0


def test_clocks_that_drift_apart_do_not_add_up():
    transit = Transit()
    delays = [transit.delay(second, second * 1.00005) for second in range(0, 5 * 86400, 10)]
    assert max(delays) < 0.1
