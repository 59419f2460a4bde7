"""Speed of sweeps: ``python -m overdrive.sweep.bench``.

Prints the time that a job costs beyond its simulation, and the speed of two Dask workers over one.
Scheduler and workers are processes of this machine, with one thread each; the runs are interleaved
(one, two, two, one worker).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .manifest import load
from .progress import Progress
from .run import Summary, Sweep

POLICIES = ("lru", "fifo", "clock", "sieve", "2q", "s3-fifo", "arc", "lirs", "w-tinylfu", "adaptive")


def _write(home: Path, traces: int, requests: int) -> None:
    """Writes generated traces, and their manifest without the output."""
    (home / "traces").mkdir(parents=True)
    for number in range(traces):
        chance = random.Random(number)
        with (home / "traces" / f"{number:04}.csv").open("w") as file:
            for _ in range(requests):
                file.write(f"R,{int(50_000 * chance.random() ** 3) * 4096},4096\n")


def _sweep(home: Path, output: str, on: str | None, workers: int) -> Summary:
    path = home / f"{output}.toml"
    lists = {"traces": ["traces/*.csv"], "policies": list(POLICIES), "sizes": ["1%", "5%", "20%"]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in lists.items()]
    path.write_text("\n".join([f'output = "{output}"', *lines]))
    summary, _ = Sweep(load(path), Progress(io.StringIO())).run(on, workers)
    assert summary.complete and not summary.marked_rows, summary
    return summary


def _cpu_seconds(processes: list[int]) -> float:
    """Returns the processor time of this process, its ended children, and these processes."""
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(one.ru_utime + one.ru_stime for one in own)
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


@contextlib.contextmanager
def _dask(home: Path, workers: int) -> Iterator[tuple[str, list[int]]]:
    """Gives the address of a cluster with this number of workers, and its processes."""
    from distributed import Client

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{one.getsockname()[1]}"
    port = address.rpartition(":")[2]
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", port]
    worker = ["worker", f"tcp://{address}", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1"]
    running = []
    try:
        for number, words in enumerate([scheduler] + [worker] * workers):
            folder = home / f"process-{workers}-{number}-{time.monotonic_ns()}"
            folder.mkdir()
            module = f"distributed.cli.dask_{words[0]}"
            running.append(
                subprocess.Popen(
                    [sys.executable, "-m", module, "--no-dashboard", *words[1:]],
                    cwd=folder,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        with Client(f"tcp://{address}", timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield f"dask://{address}", [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _measured(name: str, home: Path, output: str, on: str | None, processes: list[int]) -> Summary:
    """Runs a sweep, and prints the time of a job beyond its simulation: elapsed, if the workers
    share the simulations evenly, and of processors."""
    before = _cpu_seconds(processes)
    summary = _sweep(home, output, on, 1)
    cpu = _cpu_seconds(processes) - before
    beyond = summary.elapsed_seconds - summary.job_seconds / summary.workers
    print(
        f"{name}: {summary.jobs} jobs, {summary.elapsed_seconds:.2f} s, of which simulations "
        f"{summary.job_seconds:.2f} s; overhead {beyond / summary.jobs * 1e3:.2f} ms a job; "
        f"all processors {cpu:.2f} s, {cpu / summary.jobs * 1e3:.2f} ms a job",
        flush=True,
    )
    return summary


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m overdrive.sweep.bench", description=__doc__)
    parser.add_argument("--traces", type=int, default=100, help="10 jobs each (default 100)")
    parser.add_argument("--requests", type=int, default=60_000, help="of a trace (default 60,000)")
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} processors")
    with tempfile.TemporaryDirectory(prefix="overdrive-bench-") as folder:
        small, large = Path(folder, "small"), Path(folder, "large")
        _write(small, options.traces, 100)
        _measured("local, 1 worker, tiny traces", small, "local", None, [])
        with _dask(small, 1) as (on, processes):
            _measured("Dask, 1 worker, tiny traces", small, "dask", on, processes)
        _write(large, options.traces, options.requests)
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for number, workers in enumerate((1, 2, 2, 1)):
            name = f"Dask, {workers} workers"
            with _dask(large, workers) as (on, processes):
                summary = _measured(name, large, f"run-{number}", on, processes)
            seconds[workers].append(summary.elapsed_seconds)
        ratios = [one / two for one in seconds[1] for two in seconds[2]]
        ratio = sum(seconds[1]) / sum(seconds[2])
        print(f"two workers are {ratio:.2f}x one ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
