"""Simulations: the figures of the program, errors, other threads, Ctrl-C."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Program, Requests

import overdrive

DRIVE = "samsung-840-evo-250"


def rows_of(result: Any) -> list[dict[str, Any]]:
    """Returns the runs of the program's object with the columns of the table."""
    rows = [dict(run) for run in result["runs"]]
    for row in rows:
        row.pop("map_classes")
    return rows


def test_the_figures_are_those_of_the_program(program: Program, trace: str) -> None:
    table = overdrive.simulate(
        trace,
        memory=[1 << 20, "4M", "10%"],
        policies=["default", "lru", "opt"],
        compress=2.5,
    )
    expected = program(
        "sim", "--json", "--trace", trace, "--memory", "1M,4M,10%", "--policy", "default,lru,opt",
        "--compress", "2.5",
    )
    found = table.to_pylist()
    # The size is as it was given: 1 MiB is a number here.
    assert [row["memory"] for row in found[:3]] == ["1048576", "4194304", "10%"]
    assert found == rows_of(expected)
    assert len({row["block_misses"] for row in found}) > 5, "the runs differ"
    head = overdrive.head(table)
    assert head == {key: value for key, value in expected.items() if key != "runs"}
    assert head["complete"] is True and head["format"] == "csv"


def test_options_reach_the_simulation(program: Program, trace: str) -> None:
    table = overdrive.simulate(
        trace, memory="1M", policies="sieve", devices="sdb", count="reads", shards=4, sample=0.5
    )
    expected = program(
        "sim", "--json", "--trace", trace, "--memory", "1M", "--policy", "sieve", "--device",
        "sdb", "--count", "reads", "--shards", "4", "--sample", "0.5",
    )
    assert table.to_pylist() == rows_of(expected)
    assert overdrive.head(table)["sample_rate"] == 0.5


def test_wrong_parameters_are_named(trace: str) -> None:
    for parameters, says in [
        ({"memory": "1M", "policies": ["lruu"]}, "policies lruu: there is no such policy; did you"),
        ({"memory": "1X"}, "memory 1X: '1X' is not a size"),
        ({"memory": "0%"}, "memory 0%: '0%' is not a share"),
        ({"memory": []}, "memory: is empty"),
        ({"memory": -1}, "memory -1: is negative"),
        ({"memory": 1.5}, "memory 1.5: is no size"),
        ({"memory": ["1M", None]}, "memory None: is no size"),
        ({"memory": "1K"}, "memory 1024: 0 blocks of 4 KiB are too few"),
        ({"memory": "1M", "policies": []}, "policies: is empty"),
        ({"memory": "1M", "format": "cvs"}, "format cvs: there is no such format; did you"),
        ({"memory": "1M", "count": "writes"}, "count 'writes': write 'all' or 'reads'"),
        ({"memory": "1M", "shards": 3}, "shards 3: write a power of two"),
        ({"memory": "1M", "threads": 0}, "threads 0: write a number"),
        ({"memory": "1M", "sample": 2}, "sample 2: it is not a share"),
        ({"memory": "1M", "compress": 0.5}, "compress 0.5: it is not a ratio"),
        ({"memory": "1M", "devices": ["sdz"]}, "devices sdz: "),
        ({"memory": "1M", "drive": "absent"}, "drive model:absent: "),
        ({"memory": "1M", "drive": DRIVE, "drive_depth": 0}, "drive_depth 0: write a number"),
        ({"memory": "1M", "drive": DRIVE, "drive_map": "wrapp"}, "drive_map 'wrapp': write"),
        ({"memory": "1M", "drive_map": "wrap"}, "drive_depth and drive_map are of a replay"),
    ]:
        with pytest.raises(overdrive.UsageError) as error:
            overdrive.simulate(trace, **parameters)  # type: ignore[arg-type]
        assert str(error.value).startswith(says), f"{parameters}: {error.value}"
        assert isinstance(error.value, ValueError) and isinstance(error.value, overdrive.Error)


def test_parameters_of_a_drive_are_checked_before_the_simulation(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(overdrive.NotFoundError):
        overdrive.simulate(absent, memory="1M", drive=DRIVE)
    for parameters in ({"drive": "none"}, {"drive": DRIVE, "drive_depth": 4096}):
        with pytest.raises(overdrive.UsageError, match="^drive"):
            overdrive.simulate(absent, memory="1M", **parameters)


def test_a_replay_that_is_refused_names_the_parameters_of_the_simulation(tmp_path: Path) -> None:
    timeless = tmp_path / "timeless.csv"
    timeless.write_text("R,0,4096\nR,4096,4096\n")
    for memory, depth, says in [
        ("1M", None, f"{timeless}: has no times; use 'drive_depth'"),
        ("100%", 1, "memory 100%: a cache needs at least 1 MiB"),
    ]:
        with pytest.raises(overdrive.UsageError) as error:
            overdrive.simulate(timeless, memory=memory, drive=DRIVE, drive_depth=depth)
        assert str(error.value) == says


def test_files_that_cannot_be_read_are_named(trace: str, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(FileNotFoundError, match=str(absent)) as error:
        overdrive.simulate(absent, memory="1M")
    assert isinstance(error.value, overdrive.NotFoundError)
    with pytest.raises(overdrive.UsageError, match="is a directory"):
        overdrive.simulate(tmp_path, memory="1M")
    with pytest.raises(overdrive.NotFoundError, match="compress auto-of:.*absent"):
        overdrive.simulate(trace, memory="1M", compress=f"auto-of:{absent}")
    if os.geteuid() != 0:
        absent.touch(mode=0)
        with pytest.raises(overdrive.PermissionDeniedError, match=str(absent)):
            overdrive.simulate(absent, memory="1M")


def test_hostile_traces_are_exceptions_that_name_the_place(
    requests: Requests, tmp_path: Path
) -> None:
    lines = requests.path.read_text().splitlines()
    lines[700] = "R,not-a-number,4096,1,,sda,"
    text = "\n".join(lines).encode()
    packed = gzip.compress(text)
    noise = random.Random(1).randbytes(200_000)
    for name, content, says in [
        ("line.csv", text, "line 701"),
        ("cut.csv.gz", packed[: len(packed) // 2], "truncated"),
        ("damaged.csv.gz", packed[:2000] + noise[:64] + packed[2064:], "damaged before byte"),
        ("noise", noise, ""),
        ("long.csv", b"R,0," + b"4" * 100_000, ""),
        ("huge.csv", b"R,0,99999999999999999999999\n" * 9, ""),
        ("beyond.csv", b"R,0,4096\nR,18446744073709551615,4096\n", "line 2"),
        ("zeros", bytes(100_000), ""),
        ("empty", b"", ""),
        ("magic", b"\x28\xb5\x2f\xfd" + noise[:1000], ""),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        calls: list[Callable[[Path], Any]] = [
            lambda path: overdrive.simulate(path, memory="1M"),
            lambda path: overdrive.open_trace(path).info(),
            lambda path: overdrive.open_trace(path).to_arrow(),
        ]
        for call in calls:
            with pytest.raises(overdrive.Error) as error:
                call(path)
            message = str(error.value)
            assert message.startswith(f"{path}: ") and says in message, message
            assert not isinstance(error.value, overdrive.InternalError), message


def test_other_threads_run_meanwhile(endless: Path) -> None:
    ticks = 0
    done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    # The number of requests limits the time: 20 requests are 5 million accesses.
    short = endless.with_name("short.csv")
    short.write_text("".join(endless.read_text().splitlines(keepends=True)[:20]))
    overdrive.simulate(short, memory="1M", policies=["lru", "sieve"], threads=1)
    elapsed = time.monotonic() - start
    counted = ticks
    done.set()
    thread.join()
    assert elapsed > 0.05, "the simulation is too short for this test"
    assert counted >= elapsed / 0.005 / 20, f"{counted} ticks in {elapsed} s"


def threads_of(call: Callable[[], Any]) -> int:
    """Returns the number of threads that a call has beside those from before."""

    def count() -> int:
        return len(os.listdir("/proc/self/task"))

    done = threading.Event()
    counts: list[int] = []

    def look() -> None:
        while not done.wait(0.001):
            counts.append(count())

    thread = threading.Thread(target=look)
    thread.start()
    before = count()
    try:
        call()
    finally:
        done.set()
        thread.join()
    return max(counts) - before


def test_the_number_of_threads_is_a_limit(endless: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.csv"
    short.write_text("".join(endless.read_text().splitlines(keepends=True)[:20]))
    # Arrow has threads of its own, which it starts at first use.
    overdrive.open_trace(short).to_arrow()

    def simulate(threads: int) -> None:
        overdrive.simulate(short, memory="1M", policies=["lru", "sieve", "fifo"], threads=threads)

    assert threads_of(lambda: simulate(1)) == 0
    assert threads_of(lambda: simulate(2)) == 2


SCRIPT = """
import os, signal, sys
import overdrive
# Shells start background jobs with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threads = len(os.listdir("/proc/self/task"))
try:
    print("ready", flush=True)
    {call}
except KeyboardInterrupt:
    late = len(os.listdir("/proc/self/task")) - threads
    print("interrupted", late, flush=True)
    # The package is usable afterwards.
    print(len(overdrive.policies()), flush=True)
    sys.exit(7)
"""


@pytest.mark.parametrize(
    "call",
    [
        "overdrive.simulate({trace!r}, memory=['1M', '2M'], policies=['lru', 'arc'])",
        "overdrive.simulate({trace!r}, memory='1%', policies='opt')",
        "overdrive.open_trace({trace!r}).info()",
        "overdrive.bench('consistency', 'samsung-840-evo-250')",
    ],
)
def test_ctrl_c_ends_long_calls(call: str, endless: Path) -> None:
    script = SCRIPT.format(call=call.format(trace=str(endless)))
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", script], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        assert child.poll() is None, "it ended before the signal"
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 7, out
    assert out.splitlines()[0] == "interrupted 0", "no thread of the work is left"
    assert time.monotonic() - sent < 30
