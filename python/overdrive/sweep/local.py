"""Jobs in processes of this machine.

The pool of ``concurrent.futures`` fails all its jobs when one worker dies, and does not show which
job the worker had. This one gives that job alone to another worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from .errors import TRACE, JobError
from .jobs import Batch, Job, Result, failed, run_batch

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
        limits.append(_container_bytes("/sys/fs/cgroup"))
    return min(limits, default=None)


def _container_bytes(folder: str) -> int:
    """Returns the memory that a container has left. Cached files make room when it is needed."""
    values = []
    for name in ("memory.max", "memory.current"):
        with open(os.path.join(folder, name)) as file:
            values.append(int(file.read()))
    with open(os.path.join(folder, "memory.stat")) as lines:
        facts = dict(line.split() for line in lines)
    return values[0] - values[1] + int(facts["inactive_file"])


def worker_count(wanted: int | None, job_bytes: int | None) -> int:
    """Returns the number of workers: as wanted, or one per processor if memory is sufficient."""
    if wanted is not None:
        return wanted
    available = memory_bytes()
    if job_bytes is None or available is None:
        return processors()
    return max(1, min(processors(), available // job_bytes))


#: Starts a worker: a process that imports this package, but not the main module of its parent.
_START = """import json, sys
sys.path[:] = json.loads(sys.argv[1])
from overdrive.sweep.local import work
work(*map(int, sys.argv[2:4]), sys.argv[4])"""


class _Worker:
    """A process with one batch of jobs at a time."""

    def __init__(self, folder: str) -> None:
        own, its = _pipe()
        # Its other end closes when this process ends, by whatever.
        life, self.life = os.pipe()
        paths = json.dumps([os.path.abspath(path) for path in sys.path])
        words = [paths, str(its.fileno()), str(life), folder]
        # Ctrl-C is handled by the sweep alone: a worker inherits this mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-c", _START, *words],
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(), life),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(life)
            its.close()
        self.pipe = own
        self.batch: Batch | None = None

    def give(self, batch: Batch) -> None:
        self.batch = batch
        # A worker that has died is found by its closed pipe.
        with contextlib.suppress(OSError):
            self.pipe.send(batch)

    def end(self) -> int:
        """Kills the process. Returns its status."""
        self.process.kill()
        status = self.process.wait()
        self.pipe.close()
        os.close(self.life)
        return status


def _pipe() -> tuple[Connection, Connection]:
    one, other = socket.socketpair()
    return Connection(one.detach()), Connection(other.detach())


def run(batches: Sequence[Batch], workers: int) -> Iterator[list[tuple[Job, Result]]]:
    """Yields jobs with their results as they end."""
    left = deque(batches)
    deaths: Counter[str] = Counter()
    pool: list[_Worker] = []
    with tempfile.TemporaryDirectory(prefix="overdrive-sweep-") as folder:
        try:
            while left or any(worker.batch for worker in pool):
                while left and len(pool) < workers:
                    pool.append(_Worker(folder))
                for worker in pool:
                    if worker.batch is None and left:
                        worker.give(left.popleft())
                busy = {worker.pipe: worker for worker in pool if worker.batch}
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    batch = worker.batch
                    assert batch is not None
                    try:
                        results = worker.pipe.recv()
                    except (EOFError, OSError):
                        pool.remove(worker)
                        results = after_death(batch, worker.end(), left, deaths)
                    else:
                        worker.batch = None
                        # It works while the results are stored.
                        if left:
                            worker.give(left.popleft())
                    if results:
                        yield list(zip(batch.jobs, results, strict=True))
        finally:
            for worker in pool:
                worker.end()


def after_death(
    batch: Batch, status: int, left: deque[Batch], deaths: Counter[str]
) -> list[Result]:
    """Puts the jobs of a dead worker back, each alone. Returns the result of one that is given up."""
    if len(batch.jobs) > 1:
        left.extendleft(reversed(batch.singly()))
        return []
    deaths[batch.key] += 1
    if deaths[batch.key] < DEATHS_MAX:
        left.appendleft(batch)
        return []
    how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    reason = f"{TRACE}: {DEATHS_MAX} workers died of it ({how}); it may need more memory"
    return [failed(batch.jobs[0], JobError(reason, lasting=False))]


def work(pipe: int, life: int, folder: str) -> None:
    """Runs jobs in a worker's process until the sweep ends."""
    connection = Connection(pipe)
    own = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder)
    ending = threading.Thread(target=_end_with_parent, args=(life, own), daemon=True)
    ending.start()
    os.chdir(own)
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send(run_batch(connection.recv()))
    # A sweep that goes on must notice that this worker does not.
    connection.close()
    # If the sweep has ended, an end of this thread would stop the removals of the other one.
    ending.join()


def _end_with_parent(life: int, own: str) -> None:
    """Ends this process when the sweep has ended, with the copies of traces that it has."""
    os.read(life, 1)
    shutil.rmtree(own, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(own))
    os._exit(1)
