"""The store where its directory, its file or its disk does not do what it should."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.storage.stores import measured, times
from webapp.storage import database, waiting
from webapp.storage.store import Store, StoreUnusable

ROOT = Path(__file__).parent.parent.parent


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


def test_what_waits_for_a_disk_that_refuses_is_bounded_and_the_hole_is_reported(store, clock, monkeypatch):
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


def test_a_file_that_may_not_grow_is_reported_and_mends_by_itself(tmp_path):
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


def _child(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", _script(script), *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True
    )
    return done.stdout


def _script(text):
    return "import sys, time\n" + textwrap.dedent(text)
