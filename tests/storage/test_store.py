"""What survives a restart, on real files."""

import os
import sqlite3

import pytest

from tests.programs import eventually
from tests.storage.stores import measured, times
from webapp.measurement import Agent, Disk, Engine, Load
from webapp.storage import database, ledger
from webapp.storage.store import Store


def test_a_node_survives_a_restart_with_its_last_measurement(start, clock):
    store = start()
    first = clock.wall
    store.record(measured(cpu=1.0), clock.wall)
    store.commit()
    clock.advance(10)
    last = measured(
        "cpu-07",
        97.5,
        agent=Agent(id="a1", boot="b1", sequence=7),
        disks=(Disk(mount="/"),),
        engines=(Engine(id="e", model="m"),),
    )
    store.record(last, clock.wall - 0.5)
    store.close()
    clock.advance(33)

    (node,) = start().nodes()

    assert node.measurement == last
    assert node.measured_at == first + 9.5
    assert node.first_heard_at == first
    assert node.silent_s == 33


def test_silence_is_known_exactly_after_a_restart_on_the_same_boot_whatever_the_wall_clock_says(start, clock):
    store = start()
    store.record(measured(), clock.wall)
    store.close()
    clock.advance(20)
    clock.wall -= 7200

    assert start().nodes()[0].silent_s == 20


def test_silence_is_measured_by_the_wall_clock_after_a_reboot_and_by_none_that_was_set_back(start, clock):
    """By such a clock a node would have been heard just now, and its old numbers would be shown."""
    store = start()
    store.record(measured(), clock.wall)
    store.close()
    clock.boottime = 3.0
    clock.wall += 500
    store = start(boot="boot-2")
    assert store.nodes()[0].silent_s == 500
    store.close()
    clock.wall -= 9_000
    assert start(boot="boot-3").nodes()[0].silent_s > 60


def test_the_heartbeat_that_carried_the_measurement_is_kept_as_it_came(start, clock):
    store = start()
    store.record(measured(), clock.wall, b'{"node": "cpu-07", "load": {"cpus": 64}, "new_field": 1}')
    store.commit()
    assert store.nodes()[0].measurement.load == Load(cpus=64)


def test_samples_are_read_back_in_the_order_of_their_times(store, clock):
    for at in (30.0, 10.0, 20.0):
        store.record(measured(), clock.wall + at)
    store.commit()
    assert times(store) == [clock.wall + 10, clock.wall + 20, clock.wall + 30]


def test_a_new_engine_starts_a_new_layout_and_the_nodes_of_a_model_are_found(store, clock):
    at = clock.wall
    store.record(measured("a"), at)
    store.record(measured("b", engines=(Engine(id="e", model="other"),)), at)
    store.record(measured("a", engines=(Engine(id="e", model="m"),)), at + 100)
    store.record(measured("a"), at + 200)
    store.record(measured("a"), at + 300)
    store.commit()
    assert [rows.times for rows in store.archive.rows("a", at, at + 300)] == [[at], [at + 100], [at + 200, at + 300]]
    assert store.archive.nodes_with_model("m", at + 100, at + 300) == ["a"]
    assert store.archive.nodes_with_model("m", at + 150, at + 160) == ["a"]
    assert store.archive.nodes_with_model("m", at + 201, at + 300) == []
    assert store.archive.nodes_with_model("m", at, at + 99) == []


def test_a_layout_is_written_once_however_many_samples_have_it(start, clock):
    for _ in range(2):
        store = start()
        for _ in range(5):
            clock.advance(10)
            store.record(measured("a"), clock.wall)
            store.record(measured("b"), clock.wall)
            store.commit()
        store.close()
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("SELECT count(*) FROM layouts").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (2,)
    connection.close()


def test_a_forgotten_node_is_gone_with_its_samples_and_may_begin_anew(start, clock):
    store = start()
    store.record(measured("a", 1.0), clock.wall)
    store.record(measured("b", 1.0), clock.wall)
    store.commit()
    store.record(measured("a", 2.0), clock.wall)  # still waits when the node is forgotten
    store.forget("a")
    store.commit()
    assert [node.measurement.node for node in store.nodes()] == ["b"]
    assert times(store, "a") == []

    clock.advance(10)
    store.record(measured("a", 3.0), clock.wall)
    store.commit()
    assert times(store, "a") == [clock.wall]
    assert store.nodes()[1].first_heard_at == clock.wall


def test_the_samples_of_a_forgotten_node_are_removed_a_few_with_each_commit(store, clock, monkeypatch):
    monkeypatch.setattr(ledger, "PRUNED_AT_ONCE", 10)
    for second in range(25):
        store.record(measured("a"), clock.wall + second)
    store.commit()
    store.forget("a")
    left = []
    for _ in range(4):
        store.commit()
        left.append(_count(store, "samples"))
    assert left == [15, 5, 0, 0]
    assert _count(store, "forgotten") == 0


@pytest.mark.slow
def test_a_hundred_thousand_names_that_came_and_went_leave_nothing_behind(store, clock):
    """T86: ids made for each run are never evicted."""
    for number in range(2_000):
        store.record(measured(f"run-{number}"), clock.wall)
    store.commit()
    for number in range(2_000):
        store.forget(f"run-{number}")
    for _ in range(3_000):
        store.commit()
        if not _count(store, "forgotten"):
            break
    clock.advance(25 * 3600)
    store.commit()
    assert [_count(store, table) for table in ("nodes", "samples", "runs", "forgotten")] == [0, 0, 0, 0]
    assert _count(store, "layouts") <= 1


def _count(store, table):
    connection = database.open_for_reading(store.path)
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


@pytest.mark.slow
def test_samples_past_their_time_are_removed_and_the_file_stops_growing(start, clock):
    store = start(keep_seconds=6 * 3600)
    sizes = []
    for _ in range(30):
        for _ in range(40):
            clock.advance(30)
            for number in range(3):
                store.record(measured(f"n{number}"), clock.wall)
            store.commit()
        sizes.append(os.stat(store.path).st_size)
    assert min(times(store, "n0")) >= clock.wall - 6 * 3600
    assert len(times(store, "n0")) >= 6 * 120
    assert sizes[-1] <= sizes[19] * 1.05


@pytest.mark.slow
def test_a_sample_from_a_clock_that_was_a_year_ahead_is_removed_in_its_turn(start, clock):
    store = start(keep_seconds=6 * 3600)
    store.record(measured(), clock.wall + 3e7)
    for _ in range(7 * 360):
        clock.advance(10)
        store.record(measured(), clock.wall)
        store.commit()
    assert max(times(store)) == clock.wall
    assert min(times(store)) >= clock.wall - 6 * 3600


@pytest.mark.parametrize("hours_off", [-8, 30])
def test_a_machine_that_boots_with_a_wrong_clock_keeps_its_samples(start, clock, hours_off):
    """Without a battery, or with local time in its clock: it is set right once the network is there."""
    store = start()
    for _ in range(30):
        clock.advance(10)
        store.record(measured(), clock.wall)
        store.commit()
    known = times(store)
    store.close()
    clock.wall += hours_off * 3600
    clock.boottime = 20.0
    store = start(boot="boot-2")
    for _ in range(100):
        clock.advance(2)
        store.commit()
    clock.wall -= hours_off * 3600
    clock.advance(2)
    store.commit()
    assert times(store) == known


def test_time_without_a_control_plane_is_reported(start, clock):
    began = clock.wall
    store = start()
    clock.advance(2)
    store.commit()
    store.close()
    stopped = clock.wall
    clock.advance(600)
    store = start()
    clock.advance(8)
    store.commit()
    assert store.unheard(began, clock.wall) == [(stopped, stopped + 600, "no control plane ran")]
    assert store.unheard(began - 50, began + 1) == [(began - 50, began, "no control plane ran")]
    assert store.unheard(stopped + 100, stopped + 200) == [(stopped + 100, stopped + 200, "no control plane ran")]
    assert store.unheard(began, stopped) == []


def test_a_suspended_machine_did_not_listen(store, clock):
    clock.advance(2)
    store.commit()
    asleep = clock.wall
    clock.advance(3600)
    store.commit()
    assert store.unheard(asleep - 1, clock.wall) == [(asleep, asleep + 3600, "the control plane was stopped")]


@pytest.mark.slow
def test_what_is_older_than_the_history_is_reported(start, clock):
    store = start(keep_seconds=6 * 3600)
    for _ in range(7 * 360):
        clock.advance(10)
        store.commit()
    ((start_, end, why),) = store.unheard(clock.wall - 8 * 3600, clock.wall)
    assert (start_, end) == (clock.wall - 8 * 3600, clock.wall - 6 * 3600)
    assert why == "longer ago than the 6 h that are kept"


def test_without_a_directory_all_is_kept_in_memory(start, clock):
    store = start(None)
    store.record(measured(), clock.wall)
    store.commit()
    assert times(store) == [clock.wall]
    assert store.nodes()[0].measurement == measured()


def test_the_stores_own_thread_commits(tmp_path, clock):
    store = Store(tmp_path / "fleet.db", commit_every=0.01, clock=lambda: clock.wall)
    store.record(measured(), clock.wall)
    assert eventually(lambda: times(store) or None, "a commit") == [clock.wall]
    store.close()
