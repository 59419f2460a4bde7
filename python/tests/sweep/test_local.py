"""Sweeps in processes of this machine: equal bytes, kills, resumption, faults of traces."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest

import overdrive
from overdrive.sweep import Summary, Sweep, load, local
from overdrive.sweep.jobs import Job, batches, plan, run_job
from overdrive.sweep.local import after_death, worker_count
from overdrive.sweep.progress import Progress
from overdrive.sweep.storage import open_store
from overdrive.sweep.traces import find, identify

from .support import (
    POLICIES,
    SIZES,
    command,
    folder_of,
    is_running,
    messages,
    outputs,
    parts,
    rows,
    run_here,
    sweep,
    until,
    workers,
    write_manifest,
    write_trace,
)

#: Traces and requests for sweeps that are killed: long enough to be hit in the middle.
KILLED = (10, 12_000)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number in range(4):
        write_trace(tmp_path / "traces" / f"{number}.csv", number)
    return tmp_path


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with longer traces, and the results of one worker in ``one``."""
    home = tmp_path_factory.mktemp("long")
    for number in range(KILLED[0]):
        write_trace(home / "traces" / f"{number}.csv", number, requests=KILLED[1], blocks=10_000)
    path = write_manifest(home / "one.toml", output="one")
    assert sweep(path, "--workers", "1")["ran"] == KILLED[0] * len(POLICIES)
    return home


def start(path: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(str(path), "--json", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def catch(home: Path, name: str) -> tuple[Path, Path, subprocess.Popen[str]]:
    """Starts the long sweep and waits until some jobs have ended, but not most. Returns the
    manifest, the folder of the results and the process.

    On a busy machine the sweep may get further than this process notices; then another is started.
    """
    for attempt in range(5):
        output = f"{name}-{attempt}"
        path, folder = write_manifest(home / f"{output}.toml", output=output), home / output
        running = start(path, "--workers", "2")
        until(lambda: len(parts(folder)) >= 2 or running.poll() is not None)
        if len(parts(folder)) < KILLED[0] * len(POLICIES) - 6 and running.poll() is None:
            return path, folder, running
        running.kill()
        running.communicate()
    raise AssertionError("no sweep was in the middle when it was looked at")


def test_rows_are_those_of_the_simulation_in_the_order_of_the_manifest(home: Path) -> None:
    keys = {"compression": ["off", "2.5"], "policies": ["lru", "opt"]}
    summary = run_here(write_manifest(home / "sweep.toml", **keys))
    # The optimum has no compressed tier.
    assert (summary.jobs, summary.ran, summary.rows) == (12, 12, 36)
    found = rows(home / "results")
    names = [(row["trace"], row["compression"], row["policy"], row["memory"]) for row in found]
    caches = [("off", "lru"), ("off", "opt"), ("2.5", "lru")]
    assert names == [
        (f"traces/{trace}.csv", *cache, size) for trace in range(4) for cache in caches for size in SIZES
    ]
    for row in found:
        ratio = None if row["compression"] == "off" else row["compression"]
        path = home / row["trace"]
        run = overdrive.simulate(path, memory=row["memory"], policies=row["policy"], compress=ratio)
        run = run.to_pylist()[0]
        part = "" if ratio is None else "compress_"
        for key in ("block_misses", "miss_ratio"):
            assert row[key] == run[part + key], row
        for key in ("memory_bytes", "requests", "block_accesses"):
            assert row[key] == run[key], row
        assert (row["status"], row["error"], row["format"]) == ("ok", None, "csv")


def test_two_workers_write_the_bytes_of_one(long: Path) -> None:
    path = write_manifest(long / "two.toml", output="two")
    summary = run_here(path, workers=2)
    assert (summary.workers, summary.resumed) == (2, 0)
    assert outputs(long / "two") == outputs(long / "one")
    names = [part.name for part in parts(long / "two")]
    assert names == [part.name for part in parts(long / "one")]


def test_a_killed_worker_changes_nothing(long: Path) -> None:
    _, folder, running = catch(long, "worker")
    own = workers(running.pid)
    assert len(own) == 2
    # Each has its own working directory, which is not this one.
    until(lambda: len({folder_of(one) for one in own} - {Path.cwd()}) == 2)
    os.kill(own[0], signal.SIGKILL)
    _, errors = running.communicate(timeout=120)
    assert (running.returncode, messages(errors)) == (0, [])
    assert outputs(folder) == outputs(long / "one")


def test_a_killed_sweep_goes_on_with_the_same_bytes(long: Path) -> None:
    path, folder, running = catch(long, "sweep")
    own = workers(running.pid)
    # A worker that has just started is not there yet.
    until(lambda: folder_of(own[0]).parent.name.startswith("overdrive-sweep-"))
    above = folder_of(own[0]).parent
    running.kill()
    running.communicate()
    # Its workers do not go on without it, and leave nothing behind.
    until(lambda: not any(map(is_running, own)))
    assert not above.exists()
    done = {part: part.stat().st_mtime_ns for part in parts(folder)}
    assert not (folder / "results.parquet").exists()
    summary = run_here(path, workers=2)
    assert summary.resumed == len(done) and summary.ran == summary.jobs - len(done)
    assert {part: part.stat().st_mtime_ns for part in done} == done
    assert outputs(folder) == outputs(long / "one")


def test_a_worker_whose_pipe_closes_first_removes_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    worker = local._Worker(str(folder))
    # It reads the end of its pipe, and closes its own end.
    with socket.fromfd(worker.pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as pipe:
        pipe.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError):
        worker.pipe.recv()
    assert len(list(folder.iterdir())) == 1
    os.close(worker.life)
    assert worker.process.wait(timeout=120) == 1
    assert not folder.exists()
    worker.pipe.close()


def jobs_of(home: Path, **keys: Any) -> list[Job]:
    """Returns the jobs of a manifest."""
    manifest = load(write_manifest(home / "jobs.toml", **keys))
    store, progress = open_store(str(home / "jobs"), ""), Progress(io.StringIO())
    progress.start("reading traces", 1, 1)
    try:
        return [job for _, job in plan(manifest, identify(find(manifest), store, 1, progress))]
    finally:
        progress.end()


def test_short_jobs_are_handed_over_together_and_after_a_death_alone(home: Path) -> None:
    jobs = jobs_of(home, policies=["lru", "sieve", "fifo", "clock"])
    short, long = dict.fromkeys((job.key for job in jobs), 1), {job.key: 3 << 20 for job in jobs}
    assert [len(one.jobs) for one in batches(jobs, short, 1)] == [2] * 8
    assert [len(one.jobs) for one in batches(jobs, short, 2)] == [1] * 16
    assert [len(one.jobs) for one in batches(jobs * 64, short, 2)] == [16] * 64
    assert [len(one.jobs) for one in batches(jobs, long, 1)] == [1] * 16
    assert [job for one in batches(jobs, short, 1) for job in one.jobs] == jobs
    assert batches([], {}, 1) == []
    both, rest = batches(jobs, short, 1)[:2]
    left, deaths = deque([rest]), Counter[str]()
    assert after_death(both, -9, left, deaths) == [] and not deaths
    assert list(left) == [*both.singly(), rest]
    alone = left.popleft()
    for _ in range(2):
        assert after_death(alone, -9, left, deaths) == [] and left.popleft() == alone
    (given_up,) = after_death(alone, -9, left, deaths)
    assert not given_up.lasting and len(given_up.rows) == len(SIZES)
    reason = "{trace}: 3 workers died of it (SIGKILL); it may need more memory"
    assert {row["error"] for row in given_up.rows} == {reason}


def test_batches_write_the_bytes_of_single_jobs(home: Path) -> None:
    keys = {"policies": ["default", "lru", "sieve", "fifo", "clock", "2q", "arc", "opt"]}
    whole = run_here(write_manifest(home / "all.toml", output="all", **keys), workers=1)
    assert (whole.ran, whole.marked_rows) == (32, 0)
    # In two parts, each of fewer jobs than a batch takes.
    for number in (4, 8):
        some = {"policies": keys["policies"][:number]}
        path = write_manifest(home / "each.toml", output="each", **some)
        assert run_here(path, workers=2).ran == 16
    assert outputs(home / "each") == outputs(home / "all")
    assert [part.read_bytes() for part in parts(home / "each")] == [
        part.read_bytes() for part in parts(home / "all")
    ]


def test_a_trace_that_changes_meanwhile_has_no_figures(home: Path) -> None:
    (job,) = jobs_of(home, traces=["traces/0.csv"], policies=["lru"])
    expected = run_job(job).rows
    assert all(row["status"] == "ok" for row in expected)
    trace = home / "traces" / "0.csv"
    whole = trace.read_bytes()
    # The same contents at another time, as a copy on another machine has them.
    os.utime(trace, ns=(1, 1))
    assert run_job(job).rows == expected
    trace.write_bytes(whole.replace(b"R,", b"W,", 1))
    result = run_job(job)
    assert not result.lasting
    assert {row["error"] for row in result.rows} == {
        "{trace}: has other contents than at the start of the sweep; run the same command again"
    }
    trace.write_bytes(whole)
    assert run_job(job).rows == expected
    # The same size and time of another file.
    path = write_manifest(home / "sweep.toml", traces=["traces/0.csv"], policies=["lru"])
    before = os.stat(trace)
    assert run_here(path).ran == 1
    trace.write_bytes(whole.replace(b"R,", b"W,", 1))
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert counts(run_here(path)) == (1, 0)


def test_a_recording_that_is_cut_short_has_a_note(home: Path, program_path: Path) -> None:
    lines = [f"R,{number % 500 * 4096},4096,{number},,sda," for number in range(100_000)]
    head = "op,offset,length,time_ns,took_ns,device,process"
    (home / "long.csv").write_text("\n".join([head, *lines]) + "\n")
    recording = home / "traces" / "cut.trace"
    words = ["trace", "convert", str(home / "long.csv"), str(recording)]
    subprocess.run([str(program_path), *words], check=True, capture_output=True)
    recording.write_bytes(recording.read_bytes()[:-100])
    keys = {"traces": ["traces/cut.trace", "traces/0.csv"], "policies": ["lru"]}
    summary = sweep(write_manifest(home / "sweep.toml", **keys))
    assert (summary["noted_traces"], summary["marked_rows"]) == (1, 0)
    assert "1 traces are not complete" in summary["stderr"]
    notes = [row["notes"] for row in rows(home / "results")]
    assert notes == ["the recording is cut short"] * len(SIZES) + [None] * len(SIZES)


def test_a_script_without_a_guard_of_its_main_module_runs_a_sweep(home: Path) -> None:
    path = write_manifest(home / "sweep.toml", policies=["lru"])
    script = home / "study.py"
    script.write_text(
        "from overdrive import sweep\n"
        f"summary, table = sweep.Sweep(sweep.load({str(path)!r})).run(workers=2)\n"
        "print(summary.ran, table.num_rows)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (done.stdout, messages(done.stderr)) == (f"4 {4 * len(SIZES)}\n", [])


def test_the_time_left_shrinks_between_the_ends_of_jobs() -> None:
    progress = Progress(io.StringIO())
    progress.start("jobs", 100, 4)
    assert progress.seconds_left(progress.begin) is None
    progress.step("jobs", 25)
    progress.begin, progress.stepped = 1000.0, 1010.0
    assert [progress.seconds_left(now) for now in (1010.0, 1025.0, 1050.0)] == [30.0, 15.0, 0.0]
    progress.end()


def test_a_wait_shows_its_time() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.start("waiting for the scheduler dask://host:1")
    progress.begin -= 60
    progress.shown -= 60
    until(out.getvalue)
    progress.end()
    first = out.getvalue().splitlines()[0]
    assert first.startswith("waiting for the scheduler dask://host:1, 6"), first


def test_lines_of_json_have_no_others_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERDRIVE_PROGRESS", "json")
    out = io.StringIO()
    progress = Progress(out)
    progress.start("jobs", 4, 2)
    # Without JSON, a line is printed after this time.
    progress.shown -= 60
    progress.step("jobs", 1)
    progress.end()
    assert out.getvalue() == '{"stage": "jobs", "share": 0.25}\n'


def test_two_sweeps_into_one_folder_at_once_write_the_bytes_of_one(home: Path) -> None:
    run_here(write_manifest(home / "one.toml", output="one"))
    path = write_manifest(home / "sweep.toml")
    both = [start(path, "--workers", "1") for _ in range(2)]
    for running in both:
        out, errors = running.communicate(timeout=120)
        assert (running.returncode, messages(errors)) == (0, []), (out, errors)
    assert outputs(home / "results") == outputs(home / "one")
    names = {found.name for found in (home / "results").rglob("*") if found.is_file()}
    whole = {found.name for found in (home / "one").rglob("*") if found.is_file()}
    assert names == whole, "no file of a write is left"


@pytest.mark.slow
def test_ctrl_c_while_traces_are_read_leaves_the_results_as_they_are(home: Path) -> None:
    path = write_manifest(home / "sweep.toml", policies=["lru"])
    run_here(path)
    before = outputs(home / "results")
    # A file of holes: long to read, and no place on the disk.
    with (home / "traces" / "large.csv").open("wb") as file:
        file.truncate(1 << 40)
    running = start(path)
    until(lambda: running.poll() is not None or is_reading(running.pid, "large.csv"))
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert (running.returncode, out) == (1, "")
    assert messages(errors) == [
        "overdrive: interrupted before the results were written; run the same command again to go on"
    ]
    assert outputs(home / "results") == before


def is_reading(process: int, name: str) -> bool:
    """Whether a process has this file open."""
    with contextlib.suppress(FileNotFoundError):
        return any(
            os.readlink(one).endswith(name) for one in Path(f"/proc/{process}/fd").iterdir()
        )
    return False


@pytest.mark.slow
def test_ctrl_c_leaves_a_valid_part_and_says_how_to_go_on(long: Path) -> None:
    path, folder, running = catch(long, "ended")
    running.send_signal(signal.SIGINT)
    out, errors = running.communicate(timeout=60)
    assert running.returncode == 1 and '"complete": false' in out
    assert "interrupted after " in errors and "run the same command again to go on" in errors
    part = rows(folder)
    whole = rows(long / "one")
    assert 0 < len(part) < len(whole) and all(row in whole for row in part)
    run_here(path)
    assert outputs(folder) == outputs(long / "one")


def counts(summary: Summary) -> tuple[int, int]:
    """Returns the jobs that ran, and those from before."""
    return summary.ran, summary.resumed


def test_only_new_jobs_run(home: Path) -> None:
    path = write_manifest(home / "sweep.toml", policies=["lru"])
    assert run_here(path).ran == 4
    assert counts(run_here(path)) == (0, 4)
    write_manifest(path, policies=["lru", "sieve"])
    assert counts(run_here(path)) == (4, 4)
    # A trace that is moved is the same; one that is changed is another.
    (home / "traces" / "0.csv").rename(home / "traces" / "moved.csv")
    write_trace(home / "traces" / "1.csv", 77)
    assert counts(run_here(path)) == (2, 6)
    assert {row["trace"] for row in rows(home / "results")} >= {"traces/moved.csv"}
    # A damaged part is no result.
    part = parts(home / "results")[0]
    whole = part.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    before = outputs(home / "results")
    assert counts(run_here(path)) == (1, 7)
    assert part.read_bytes() == whole and outputs(home / "results") == before


def test_a_corrupt_trace_marks_its_rows(home: Path) -> None:
    bad = home / "traces" / "2.csv"
    lines = bad.read_text().splitlines()
    bad.write_text("\n".join([*lines[:1500], "R,none,4096", *lines[1500:]]) + "\n")
    (home / "traces" / "9.csv").write_bytes(b"\x00\x01\x02 no trace")
    path = write_manifest(home / "sweep.toml")
    summary = sweep(path, status=1)
    assert summary["complete"] and summary["marked_rows"] == 2 * len(POLICIES) * len(SIZES)
    by_trace: dict[str, list[dict[str, Any]]] = {}
    for row in rows(home / "results"):
        by_trace.setdefault(row["trace"], []).append(row)
    for row in by_trace.pop("traces/2.csv"):
        assert row["status"] == "error" and row["miss_ratio"] is None
        # The name as in the manifest, not the path of a worker.
        assert row["error"].startswith("traces/2.csv: "), row["error"]
        assert "line 1501" in row["error"]
    assert all("traces/9.csv" in row["error"] for row in by_trace.pop("traces/9.csv"))
    assert len(by_trace) == 3
    assert all(row["status"] == "ok" for part in by_trace.values() for row in part)
    # The same bytes fail again; mended ones are computed.
    assert run_here(path).ran == 0
    bad.write_text("\n".join(lines) + "\n")
    (home / "traces" / "9.csv").unlink()
    again = run_here(path)
    assert (again.ran, again.marked_rows) == (len(POLICIES), 0)


def test_a_trace_that_cannot_be_read_now_is_tried_again(home: Path) -> None:
    path = write_manifest(home / "sweep.toml", policies=["lru"], traces=["traces/[23].csv"])
    ready = Sweep(load(path), Progress(io.StringIO()))
    away = (home / "traces" / "3.csv").rename(home / "away")
    summary, table = ready.run(workers=1)
    assert (summary.ran, summary.marked_rows) == (1, 3)
    assert table.column("error").to_pylist()[3] == "traces/3.csv: No such file or directory"
    away.rename(home / "traces" / "3.csv")
    again = run_here(path)
    assert counts(again) == (1, 1) and not again.marked_rows


def test_a_name_that_is_no_text_is_written_with_its_bytes(home: Path) -> None:
    path = os.fsencode(home / "traces") + b"/\xff.csv"
    os.rename(home / "traces" / "0.csv", path)
    run_here(write_manifest(home / "sweep.toml", policies=["lru"], traces=["traces/[!123]*"]))
    found = rows(home / "results")
    assert {row["trace"] for row in found} == {"traces/\\xff.csv"}
    assert all(row["status"] == "ok" for row in found)


def test_an_impossible_size_marks_one_row(home: Path) -> None:
    write_trace(home / "traces" / "4.csv", 4, requests=20, blocks=20)
    traces = ["traces/4.csv"]
    path = write_manifest(home / "sweep.toml", policies=["lru"], sizes=["0.1%", "50%"], traces=traces)
    assert run_here(path).marked_rows == 1
    first, second = rows(home / "results")
    assert "too few" in first["error"] and first["memory"] == "0.1%"
    assert second["status"] == "ok" and second["block_misses"] > 0


def test_memory_bounds_the_number_of_workers() -> None:
    assert worker_count(3, 1 << 60) == 3
    assert worker_count(None, 1 << 60) == 1
    assert worker_count(None, None) == len(os.sched_getaffinity(0)) >= worker_count(None, 1 << 20)


@pytest.mark.slow
def test_progress_is_lines_of_json_on_request(home: Path) -> None:
    path = write_manifest(home / "sweep.toml", policies=["lru"])
    done = subprocess.run(
        command(str(path)),
        env={**os.environ, "OVERDRIVE_PROGRESS": "json"},
        capture_output=True,
        text=True,
    )
    assert messages(done.stderr)[-1] == '{"stage": "jobs", "share": 1.0}'
    assert "jobs       4 run, 0 from before, 4 in all" in done.stdout


def test_drives_have_the_latencies_of_replays(home: Path) -> None:
    drive = "samsung-840-evo-250?size=1G"
    write_trace(home / "traces" / "0.csv", 0, requests=4000, blocks=4000)
    keys: dict[str, Any] = {
        "policies": ["lru", "opt"],
        "sizes": ["1M", "2M", "50%"],
        "drives": ["none", drive],
        "replay": {"depth": 1, "state": "fresh"},
    }
    summary = run_here(write_manifest(home / "sweep.toml", traces=["traces/0.csv"], **keys))
    # The optimum cannot be served.
    assert (summary.jobs, summary.marked_rows) == (3, 0), summary.marked
    found = rows(home / "results")
    plain = [row for row in found if row["drive"] == "none" and row["policy"] == "lru"]
    drives = [row for row in found if row["drive"] == drive]
    assert [row["miss_ratio"] for row in drives] == [row["miss_ratio"] for row in plain]
    assert all(row["mean_ns"] is None for row in plain)
    means = [row["mean_ns"] for row in drives]
    # Fewer misses, less time.
    by_misses = sorted(zip((row["block_misses"] for row in drives), means, strict=True))
    assert [mean for _, mean in by_misses] == sorted(means) and means[0] > 0
    assert all(row["p50_ns"] <= row["p99_ns"] <= row["max_ns"] for row in drives)
    # The trace has no times.
    write_manifest(home / "sweep.toml", traces=["traces/0.csv"], **{**keys, "replay": None})
    run_here(home / "sweep.toml")
    errors = {row["error"] for row in rows(home / "results") if row["drive"] == drive}
    assert errors == {"traces/0.csv: has no times; use replay.depth"}
