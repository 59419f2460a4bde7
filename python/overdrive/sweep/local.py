"""Jobs in processes of this machine.

The pool of ``concurrent.futures`` fails all its jobs when one worker dies, and does not show which
job the worker had. This one gives that job alone to another worker.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from .errors import JobError
from .jobs import TRACE, Job, Result, failed, run_job

#: Workers that a job may lose, as by default in Dask.
DEATHS_MAX = 3


def processors() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Returns the memory that is available without swapping. None: it is not known."""
    limits = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/meminfo") as lines:
            line = next(line for line in lines if line.startswith("MemAvailable:"))
        limits.append(int(line.split()[1]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/memory.max") as most, open("/sys/fs/cgroup/memory.current") as used:
            limits.append(int(most.read()) - int(used.read()))
    return min(limits, default=None)


def worker_count(wanted: int | None, job_bytes: int | None) -> int:
    """Returns the number of workers: as wanted, or one per processor if memory is sufficient."""
    if wanted is not None:
        return wanted
    available = memory_bytes()
    if job_bytes is None or available is None:
        return processors()
    return max(1, min(processors(), available // job_bytes))


class _Worker:
    """A process with one job at a time."""

    def __init__(self, context: Any, folder: str) -> None:
        own, its = context.Pipe()
        self.pipe: Connection = own
        self.process: BaseProcess = context.Process(
            target=_work, args=(its, folder), daemon=True, name="overdrive-sweep"
        )
        # Ctrl-C is handled by the sweep alone: a worker inherits this mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        its.close()
        self.job: Job | None = None

    def give(self, job: Job) -> None:
        self.job = job
        # A worker that has died is found by its closed pipe.
        with contextlib.suppress(BrokenPipeError):
            self.pipe.send(job)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Result]]:
    """Yields the jobs with their results as they end."""
    context = multiprocessing.get_context("spawn")
    left, deaths = deque(jobs), dict.fromkeys((job.key for job in jobs), 0)
    pool: list[_Worker] = []
    with tempfile.TemporaryDirectory(prefix="overdrive-sweep-") as folder:
        try:
            while left or any(worker.job for worker in pool):
                while left and len(pool) < workers:
                    pool.append(_Worker(context, folder))
                for worker in pool:
                    if worker.job is None and left:
                        worker.give(left.popleft())
                busy = {worker.pipe: worker for worker in pool if worker.job}
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    job = worker.job
                    assert job is not None
                    try:
                        result = worker.pipe.recv()
                        worker.job = None
                        # It works while the result is stored.
                        if left:
                            worker.give(left.popleft())
                    except (EOFError, ConnectionError):
                        worker.end()
                        pool.remove(worker)
                        deaths[job.key] += 1
                        if deaths[job.key] < DEATHS_MAX:
                            left.appendleft(job)
                            continue
                        result = failed(job, _death(worker.process.exitcode))
                    yield job, result
        finally:
            for worker in pool:
                worker.end()


def _death(status: int | None) -> JobError:
    code = status or 0
    how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    reason = f"{TRACE}: {DEATHS_MAX} workers died of it ({how}); it may need more memory"
    return JobError(reason, lasting=False)


def _work(pipe: Connection, folder: str) -> None:
    """Runs jobs until the sweep ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    own = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder)
    os.chdir(own)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            pipe.send(run_job(pipe.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
