"""Whatever bytes /proc, a file or a server holds: parsers return, or raise what their docstrings say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webapp.agent.engines import cgroups, command_line, pidstat, sockets
from webapp.agent.machine import cgroup, disks, memory, proc
from webapp.agent.machine.cpu import CpuMeter

#: Bytes at random, and bytes that look like /proc.
PLAIN = (
    b"cpu cpu0 : ( ) kB - -1 0 7 18446744073709551615 MemTotal: MemAvailable: Pss: RssAnon: RssFile: RssShmem: S nan 0:1F40 0A"
    b" / \\040 \\777 ext4 usage_usec size model name 1e9 . -m --port vllm serve cpuacct name=systemd"
)
WORDS = st.sampled_from([*PLAIN.split(), b"cpu ", b" ", b"\n", b"\t", b" - ", b"\0", b"\xff", b"\xd9\xa1", b"9" * 5000])
#: What the kernel writes, with a piece cut out and something else in its place.
FILES = st.sampled_from(
    [
        b"cpu  10 0 5 80 3 1 1 0 0 0\ncpu0 10 0 5 80 3 1 1 0 0 0\n",
        b"812.40 640.11 512.09 9/4096 4242\n",
        b"MemTotal:       2048 kB\nMemAvailable:   1024 kB\n",
        b"4242 (vllm (a) b) S 1 4242 4242 0 -1 64 0 0 0 0 11 4 3 2 20 0 8 0 900 1000 25 1 1 1\n",
        b"0::/system.slice/vllm.service\n4:cpu,cpuacct:/docker/" + b"0123456789abcdef" * 4 + b"\n",
        b"29 1 259:2 / /a\\040b rw shared:1 - ext4 /dev/dm-2 rw\n",
        b"   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1\n",
    ]
)
BROKEN = st.builds(
    lambda file, at, length, put: file[:at] + put + file[at + length :],
    FILES,
    st.integers(0, 90),
    st.integers(0, 12),
    st.one_of(st.just(b""), st.binary(max_size=4), WORDS),
)
ANY = st.one_of(
    st.binary(max_size=300),
    st.lists(WORDS, max_size=60).map(b"".join),
    st.lists(WORDS, max_size=60).map(b" ".join),
    BROKEN,
)


@given(ANY)
def test_the_machines_files(data):
    times = proc.parse_stat(data)
    assert (times.total is None) == (times.idle is None)
    for number in proc.parse_loadavg(data):
        assert number is None or 0 <= number < 1e9
    uptime = proc.parse_uptime(data)
    assert uptime is None or 0 <= uptime < 1e9
    assert all(0 <= number < 2**63 * 1024 for number in proc.parse_meminfo(data).values())
    name = proc.parse_cpu_model(data)
    assert name is None or 0 < len(name) <= 253
    assert (memory.parse_arcstats(data) or 0) >= 0


@given(ANY)
def test_the_files_of_a_process(data):
    try:
        stat = pidstat.parse_stat(data)
    except proc.ProcError:
        pass
    else:
        assert all(number is None or 0 <= number < 2**63 for number in (stat.cpu, stat.reaped, stat.rss))
    pidstat.parse_status(data)
    pidstat.parse_smaps_rollup(data)
    for path in cgroup.parse_cgroup(data).values():
        unit = cgroups.unit_of(path)
        assert unit is None or len(unit.encode()) > 0
    command_line.recognise(pidstat.parse_cmdline(data))


@given(ANY)
def test_other_tables(data):
    for mount in disks.devices(disks.parse_mountinfo(data)):
        assert mount.mount is not None
    sockets.parse_listeners(data, 8000)
    cgroups.parse_cpu_stat(data)


@given(st.lists(st.text(max_size=30), max_size=20))
def test_any_command_line(words):
    for start in (
        [],
        ["vllm", "serve"],
        ["python3"],
        ["python3", "-m", "sglang.launch_server"],
        ["llama-server"],
        ["lmdeploy", "serve", "api_server"],
    ):
        recognised = command_line.recognise(start + words)
        if recognised:
            assert recognised.model is None or 0 < len(recognised.model) <= 253
            assert recognised.port is None or 0 < recognised.port < 65536


COUNTERS = st.integers(min_value=0, max_value=2**64)
TIMES = st.builds(proc.CpuTimes, st.none() | COUNTERS, st.none() | COUNTERS, st.none() | st.integers(1, 4096))


@given(st.lists(st.tuples(TIMES, st.none() | st.floats(0, 1e6)), max_size=5))
def test_percent_is_between_0_and_100_or_unknown(readings):
    meter = CpuMeter(ticks=100)
    for times, elapsed_s in readings:
        busy = meter.measure(times, elapsed_s)
        assert busy is None or (0 <= busy.percent <= 100 and busy.ticks >= 0)


@given(
    st.dictionaries(
        st.sampled_from(["MemTotal", "MemFree", "MemAvailable", "Cached", "Shmem", "SwapTotal", "SwapFree"]),
        st.integers(0, 2**62),
    )
)
def test_memory_is_never_negative_and_never_more_than_there_is(meminfo):
    found = memory.measure(meminfo)
    assert all(number >= 0 for number in found.values())
    total = found.get("memory_total_bytes", 0)
    assert found.get("memory_used_bytes", 0) <= total
    assert found.get("memory_available_bytes", 0) <= total
