"""What survives a restart, on real files."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from webapp.measurement import Agent, Disk, Engine, Load, Measurement
from webapp.storage import database, ledger, waiting
from webapp.storage.store import Store, StoreUnusable

ROOT = Path(__file__).parent.parent


class Clock:
    """A wall clock and a boot clock that stand still."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.boottime = 5_000.0

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.boottime += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def start(clock, tmp_path):
    """Starts a control plane's store in a directory, as often as a test wants."""
    stores = []

    def start(path=tmp_path / "data" / "fleet.db", boot="boot-1", **more):
        stores.append(
            Store(path, commit_every=None, clock=lambda: clock.wall, boottime=lambda: clock.boottime, boot=boot, **more)
        )
        return stores[-1]

    yield start
    for store in stores:
        store.close()


@pytest.fixture
def store(start):
    return start()


def measured(node="cpu-07", cpu=43.2, **parts):
    return Measurement(node, load=Load(cpu_percent=cpu, cpus=64), **parts)


def times(store, node="cpu-07", start=0.0, end=1e12):
    return [at for rows in store.archive.rows(node, start, end) for at in rows.times]


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


def test_silence_is_told_by_the_wall_clock_after_a_reboot_and_by_none_that_was_set_back(start, clock):
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


def test_time_without_a_control_plane_is_told(start, clock):
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
def test_what_is_older_than_the_history_is_told(start, clock):
    store = start(keep_seconds=6 * 3600)
    for _ in range(7 * 360):
        clock.advance(10)
        store.commit()
    ((start_, end, why),) = store.unheard(clock.wall - 8 * 3600, clock.wall)
    assert (start_, end) == (clock.wall - 8 * 3600, clock.wall - 6 * 3600)
    assert why == "longer ago than the 6 h that are kept"


def test_a_second_process_on_the_same_directory_is_refused(store):
    """T85: two registries of one fleet would answer in turns."""
    with pytest.raises(StoreUnusable, match=rf"in use by another control plane \(process {os.getpid()}\)"):
        Store(store.path)


def test_a_directory_that_cannot_be_made_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable) as refusal:
        Store(tmp_path / "file" / "data" / "fleet.db")
    assert str(refusal.value) == f"data directory {tmp_path}/file/data: cannot be written: Not a directory"


def test_a_read_only_directory_is_refused_in_one_line(tmp_path):
    tmp_path.chmod(0o555)
    output = _child(
        """
        import os
        from pathlib import Path
        from webapp.storage.store import Store, StoreUnusable
        if os.getuid() == 0:
            os.setuid(65534)  # root may write anywhere
        try:
            Store(Path(sys.argv[1], 'fleet.db'))
        except StoreUnusable as error:
            print(error)
        """,
        tmp_path,
    )
    assert output == f"data directory {tmp_path}: cannot be written: Permission denied\n"


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000, b"SQLite format 3\0"])
def test_a_file_that_is_no_database_is_set_aside_and_the_store_starts(start, tmp_path, clock, content):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fleet.db").write_bytes(content)
    store = start()
    (aside,) = (tmp_path / "data").glob("fleet.db.corrupt-*")
    assert aside.read_bytes() == content
    assert aside.name in store.notice
    store.record(measured(), clock.wall)
    store.commit()
    assert times(store) == [clock.wall]


def test_an_empty_file_is_a_new_database(start, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "fleet.db").touch()
    assert start().notice is None


def test_damage_inside_the_file_is_found_at_the_start(start, clock):
    store = start()
    for second in range(500):
        store.record(measured(), clock.wall + second)
    store.close()
    with store.path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 16384)
    store = start()
    assert "set aside" in store.notice
    assert store.nodes() == []


def test_damage_that_shows_while_running_costs_the_file_but_not_the_store(start, clock):
    store = start()
    for second in range(500):
        store.record(measured(), clock.wall + second)
    store.close()
    store = start()
    with store.path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xa5" * (store.path.stat().st_size - 100))
    clock.advance(1000)
    store.record(measured(), clock.wall)
    with pytest.raises(sqlite3.DatabaseError):
        times(store)
    store.commit()
    assert store.problem is None
    assert "set aside" in store.notice
    assert times(store) == [clock.wall]


def test_a_file_of_a_later_version_is_set_aside(start, tmp_path):
    start().close()
    connection = sqlite3.connect(tmp_path / "data" / "fleet.db")
    connection.execute(f"PRAGMA user_version = {database.VERSION + 1}")
    connection.close()
    assert "written by a later version" in start().notice


def test_a_file_that_somebody_removed_is_made_anew(store, clock):
    store.record(measured(), clock.wall)
    store.commit()
    store.path.unlink()
    store.record(measured(), clock.wall + 10)
    store.commit()
    assert times(store) == [clock.wall + 10]
    assert "was removed" in store.notice


def test_without_a_directory_all_is_kept_in_memory(start, clock):
    store = start(None)
    store.record(measured(), clock.wall)
    store.commit()
    assert times(store) == [clock.wall]
    assert store.nodes()[0].measurement == measured()


def test_what_waits_for_a_disk_that_refuses_is_bounded_and_the_hole_is_told(store, clock, monkeypatch):
    monkeypatch.setattr(waiting, "MOST_WAITING", 3)
    store.commit()
    began = clock.wall
    real = store._ledger.connection
    store._ledger.connection = _Failing("SQLITE_FULL")
    for _ in range(5):
        clock.advance(10)
        store.record(measured(), clock.wall)
        store.commit()
    assert store.problem == "The history cannot be written: the disk is full."
    assert store.dropped == 2
    assert store.write_lag_s == 20
    assert times(store) == []
    assert store.unheard(began, clock.wall)[-1][2] == "the history could not be written: the disk is full"

    store._ledger.connection = real
    clock.advance(1)
    store.commit()
    assert store.problem is None
    assert store.write_lag_s == 0
    assert times(store) == [began + 30, began + 40, began + 50]
    assert store.unheard(began, clock.wall) == [(began + 10, began + 30, "the history could not be written: the disk is full")]


class _Failing:
    in_transaction = False

    def __init__(self, name):
        self.name = name

    def execute(self, *_):
        error = sqlite3.DatabaseError(self.name)
        error.sqlite_errorname = self.name
        raise error

    def close(self):
        pass


def test_damage_that_the_writer_meets_costs_the_file_but_not_what_waits(store, clock):
    store._ledger.connection.close()
    store._ledger.connection = _Failing("SQLITE_CORRUPT_VTAB")
    store.record(measured(), clock.wall)
    store.commit()
    assert store.problem == "The history cannot be written: damaged."
    store.commit()
    assert store.problem is None
    assert times(store) == [clock.wall]


def test_a_node_forgotten_while_the_disk_refuses_does_not_come_back(store, clock):
    store.record(measured(), clock.wall)
    store.commit()
    real = store._ledger.connection
    store._ledger.connection = _Failing("SQLITE_FULL")
    store.record(measured(), clock.wall + 10)
    store.commit()
    store.forget("cpu-07")
    store.commit()
    store._ledger.connection = real
    store.commit()
    assert store.nodes() == []
    assert times(store) == []


def test_a_file_that_may_not_grow_is_told_and_mends_by_itself(tmp_path):
    output = _child(
        """
        import resource
        from pathlib import Path
        from webapp.measurement import Load, Measurement
        from webapp.storage.store import Store
        clock = time.time() - 5_000
        store = Store(Path(sys.argv[1], 'fleet.db'), commit_every=None)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        for second in range(4_000):
            store.record(Measurement("n", load=Load(cpus=2)), clock + second)
            if second % 100 == 99:
                store.commit()
        print(store.problem)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        store.commit()
        print(store.problem, store.dropped, sum(len(rows.times) for rows in store.archive.rows("n", 0, 1e12)))
        store.close()
        """,
        tmp_path,
    )
    assert output == "The history cannot be written: the disk refuses.\nNone 0 4000\n"


@pytest.mark.slow
def test_nothing_that_was_committed_is_lost_by_kill_9(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", _script(_HEAVY_WRITER), tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    committed = 0
    for line in child.stdout:
        committed = int(line)
        if committed > 4_000:
            child.send_signal(signal.SIGKILL)
            break
    committed = max([committed, *map(int, child.stdout.read().split())])
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL

    store = Store(tmp_path / "fleet.db", commit_every=None)
    assert store.notice is None
    kept = sum(len(times(store, f"n{number}")) for number in range(100))
    assert kept >= committed
    assert len(store.nodes()) == 100
    store.close()


_HEAVY_WRITER = """
    from pathlib import Path
    from webapp.measurement import Load, Measurement
    from webapp.storage.store import Store
    class Told(Store):
        def commit(self):
            before = recorded
            super().commit()
            print(before, flush=True)
    recorded, began = 0, time.time()
    store = Told(Path(sys.argv[1], 'fleet.db'), commit_every=0.05)
    while True:
        store.record(Measurement(f"n{recorded % 100}", load=Load(cpus=2)), began + recorded / 1000)
        recorded += 1
        if recorded % 20 == 0:
            store._stop.wait(0.005)
"""


def test_the_stores_own_thread_commits(tmp_path, clock):
    store = Store(tmp_path / "fleet.db", commit_every=0.01, clock=lambda: clock.wall)
    store.record(measured(), clock.wall)
    while not times(store):
        store._stop.wait(0.01)
    store.close()


def _child(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", _script(script), *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    return done.stdout


def _script(text):
    return "import sys, time\n" + textwrap.dedent(text)
