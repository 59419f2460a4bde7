"""Speed of sweeps: ``python -m overdrive.sweep.bench``.

Prints the time that a job costs beyond its simulation, and the speed of two Dask workers over one.
Scheduler and workers are processes of this machine, with one thread each; the runs are interleaved
(one, two, two, one worker). The ratio is a fact about the sweep only if nothing else uses the
processors: the load, and the share of the processors that others had, are printed with it.
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
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import native
from .manifest import load
from .progress import Progress
from .run import Summary, Sweep

#: Goals.
OVERHEAD_MAX_MS = 5.0
RATIO_MIN = 1.6
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


def _machine_seconds() -> float:
    """Returns the time that the processors have worked for anything, or were not given to this
    virtual machine."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    with open("/proc/stat") as lines:
        ticks = dict(zip(names, map(int, next(lines).split()[1:])))
    idle = ticks["idle"] + ticks["iowait"]
    return (sum(ticks.values()) - idle) / os.sysconf("SC_CLK_TCK")


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


@dataclass
class Measured:
    """A sweep, and its time."""

    summary: Summary
    #: Processor time of the sweep, its workers and the scheduler.
    cpu_seconds: float
    #: Part of the processors that other programs had, or the machine did not give.
    others: float

    @property
    def overhead_ms(self) -> float:
        """Time of a job beyond its simulation, if the workers share the simulations evenly."""
        summary = self.summary
        beyond = summary.elapsed_seconds - summary.simulation_seconds / summary.workers
        return beyond / summary.jobs * 1e3

    @property
    def overhead_cpu_ms(self) -> float:
        """Processor time of a job beyond its simulation."""
        return (self.cpu_seconds - self.summary.simulation_cpu_seconds) / self.summary.jobs * 1e3

    def text(self) -> str:
        """Returns the times in words."""
        summary, jobs = self.summary, self.summary.jobs
        return (
            f"{jobs} jobs in {summary.elapsed_seconds:.2f} s; of a job: simulation "
            f"{summary.simulation_seconds / jobs * 1e3:.2f} ms "
            f"({summary.simulation_cpu_seconds / jobs * 1e3:.2f} ms of a processor), overhead "
            f"{self.overhead_ms:.2f} ms ({self.overhead_cpu_ms:.2f} ms of a processor); others had "
            f"{self.others:.0%} of the processors"
        )


def _measured(name: str, home: Path, output: str, on: str | None, processes: list[int]) -> Measured:
    """Runs a sweep, and prints its time."""
    before, machine = _cpu_seconds(processes), _machine_seconds()
    summary = _sweep(home, output, on, 1)
    cpu = _cpu_seconds(processes) - before
    machine = _machine_seconds() - machine
    whole = summary.elapsed_seconds * (os.cpu_count() or 1)
    found = Measured(summary, cpu, max(machine - cpu, 0.0) / whole)
    print(f"{name}: {found.text()}", flush=True)
    return found


def _overhead(folder: Path, traces: int, runs: int) -> bool:
    """Measures the overhead of short jobs. Returns whether it is below the goal."""
    _write(folder, traces, 100)
    found: dict[str, list[Measured]] = {"local": [], "Dask": []}
    for run in range(runs):
        name = "local, 1 worker, tiny traces"
        found["local"].append(_measured(name, folder, f"local-{run}", None, []))
        with _dask(folder, 1) as (on, processes):
            name = "Dask, 1 worker, tiny traces"
            found["Dask"].append(_measured(name, folder, f"dask-{run}", on, processes))
    is_below = True
    for name, several in found.items():
        elapsed = sorted(one.overhead_ms for one in several)
        cpu = sorted(one.overhead_cpu_ms for one in several)
        is_below &= statistics.median(elapsed) < OVERHEAD_MAX_MS
        print(
            f"overhead of a job, {name}: {statistics.median(elapsed):.2f} ms ({elapsed[0]:.2f} to "
            f"{elapsed[-1]:.2f}), {statistics.median(cpu):.2f} ms of a processor ({cpu[0]:.2f} to "
            f"{cpu[-1]:.2f}); goal under {OVERHEAD_MAX_MS:g} ms; {runs} runs of {several[0].summary.jobs} jobs"
        )
    return is_below


def _speed(folder: Path, traces: int, requests: int) -> bool:
    """Compares two Dask workers with one. Returns whether the ratio reaches the goal."""
    _write(folder, traces, requests)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    others: list[float] = []
    for number, workers in enumerate((1, 2, 2, 1)):
        name = f"Dask, {workers} workers"
        with _dask(folder, workers) as (on, processes):
            measured = _measured(name, folder, f"run-{number}", on, processes)
        seconds[workers].append(measured.summary.elapsed_seconds)
        others.append(measured.others)
    ratios = sorted(one / two for one in seconds[1] for two in seconds[2])
    ratio = sum(seconds[1]) / sum(seconds[2])
    print(
        f"two Dask workers are {ratio:.2f} x one ({ratios[0]:.2f} to {ratios[-1]:.2f}); goal "
        f"{RATIO_MIN:g}; {10 * traces} jobs of {requests} requests, {_processors()} processors, of "
        f"which others had {min(others):.0%} to {max(others):.0%}"
    )
    return ratio >= RATIO_MIN


def _processors() -> int:
    return len(os.sched_getaffinity(0))


def main() -> int:
    """Runs the benchmark. The exit status is 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m overdrive.sweep.bench", description=__doc__)
    parser.add_argument("--only", choices=("overhead", "speed"), help="measure only this")
    parser.add_argument("--traces", type=int, default=100, help="10 jobs each (default 100)")
    parser.add_argument("--requests", type=int, default=60_000, help="of a trace (default 60,000)")
    parser.add_argument("--runs", type=int, default=3, help="of the overhead (default 3)")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{_processors()} processors, load {load:.1f} before; overdrive {native.version()}")
    is_good = True
    with tempfile.TemporaryDirectory(prefix="overdrive-bench-") as folder:
        if options.only != "speed":
            is_good &= _overhead(Path(folder, "small"), options.traces, options.runs)
        if options.only != "overhead":
            is_good &= _speed(Path(folder, "large"), options.traces, options.requests)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
