"""Traces, manifests and processes for the tests of sweeps."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from overdrive.sweep import Summary, Sweep, load
from overdrive.sweep.progress import Progress

POLICIES = ("default", "lru", "sieve")
SIZES = ("1%", "10%", "64K")


def write_trace(path: Path, seed: int, requests: int = 2000, blocks: int = 500) -> Path:
    """Writes a trace of skewed reads and some writes, in the format ``csv``."""
    chance = random.Random(seed)
    lines = ["op,offset,length"]
    for _ in range(requests):
        block = int(blocks * chance.random() ** 3)
        lines.append(f"{'W' if chance.random() < 0.2 else 'R'},{block * 4096},4096")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def write_manifest(path: Path, **keys: Any) -> Path:
    """Writes a manifest; a key of None is left out."""
    table: dict[str, Any] = {
        "traces": ["traces/*.csv"],
        "output": "results",
        "policies": list(POLICIES),
        "sizes": list(SIZES),
        **keys,
    }
    lines = [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def command(*words: str) -> list[str]:
    """Returns the command line of a sweep."""
    # Isolated: a folder `overdrive` in the working directory is not the package.
    return [sys.executable, "-I", "-m", "overdrive.sweep", *words]


def sweep(*words: str | Path, status: int = 0) -> dict[str, Any]:
    """Runs a sweep in a process of its own. Returns its summary."""
    done = subprocess.run(
        command(*map(str, words), "--json"), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    summary: dict[str, Any] = json.loads(done.stdout)
    return {**summary, "stderr": done.stderr}


def run_here(path: Path, workers: int = 1) -> Summary:
    """Runs a sweep in this process, which is faster to start. Returns its summary."""
    summary, _ = Sweep(load(path), Progress(io.StringIO())).run(workers=workers)
    assert summary.complete
    return summary


def refused(*words: str | Path) -> str:
    """Runs a sweep that must not start. Returns its message."""
    done = subprocess.run(command(*map(str, words)), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (2, ""), (done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


def messages(errors: str) -> list[str]:
    """Returns the lines of stderr without those of the progress, which a busy machine has."""
    lines = errors.splitlines()
    return [line for line in lines if not line.startswith(("jobs: ", "reading traces: "))]


def outputs(folder: Path) -> tuple[bytes, bytes]:
    """Returns the files of results."""
    return (folder / "results.parquet").read_bytes(), (folder / "results.csv").read_bytes()


def rows(folder: Path) -> list[dict[str, Any]]:
    """Returns the results."""
    found: list[dict[str, Any]] = pq.read_table(folder / "results.parquet").to_pylist()
    return found


def parts(folder: Path) -> list[Path]:
    """Returns the results of single jobs."""
    return sorted((folder / "parts").glob("*.parquet"))


def until(is_true: Callable[[], Any], seconds: float = 240.0) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def children(process: int) -> list[int]:
    """Returns the processes that a process has started."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError):
        for task in Path(f"/proc/{process}/task").iterdir():
            found += [int(one) for one in (task / "children").read_text().split()]
    return found


def workers(process: int) -> list[int]:
    """Returns the workers of a local sweep."""

    def is_worker(child: int) -> bool:
        with contextlib.suppress(OSError):
            return b"overdrive.sweep.local" in Path(f"/proc/{child}/cmdline").read_bytes()
        return False

    return [child for child in children(process) if is_worker(child)]


def folder_of(process: int) -> Path:
    """Returns the working directory of a process."""
    return Path(os.readlink(f"/proc/{process}/cwd"))


def is_running(process: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def free_port() -> int:
    """Returns a port that nothing uses now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Dask:
    """A scheduler and workers: processes with working directories of their own."""

    def __init__(self, home: Path, environment: Mapping[str, str], security: Any = None) -> None:
        self.home = home
        self.environment = environment
        self.port = free_port()
        self.scheme = "tcp" if security is None else "tls"
        self.processes: list[subprocess.Popen[bytes]] = []
        address = ("--host", "127.0.0.1", "--port", str(self.port), "--protocol", self.scheme)
        self.start("scheduler", *address)
        until(self._answers)
        from distributed import Client

        self.client: Any = Client(self.address, security=security, set_as_default=False)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return self.address.replace("tcp:", "dask:").replace("tls:", "dask+tls:")

    def _answers(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def start(
        self, kind: str, *words: str, path: Sequence[Path] = ()
    ) -> subprocess.Popen[bytes]:
        """Starts a process of Dask; ``path`` is searched for packages first."""
        number = len(self.processes)
        folder = self.home / f"{kind}-{number}"
        folder.mkdir(parents=True)
        before = [str(one) for one in path]
        python_path = os.pathsep.join(before + os.environ.get("PYTHONPATH", "").split(os.pathsep))
        log = (folder / "log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + kind, "--no-dashboard", *words],
            cwd=folder,
            env={**os.environ, **self.environment, "PYTHONPATH": python_path},
            stdout=log,
            stderr=log,
        )
        self.processes.append(process)
        return process

    def worker(self, *words: str, path: Sequence[Path] = ()) -> subprocess.Popen[bytes]:
        """Starts a worker with one thread."""
        fixed = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
        return self.start("worker", self.address, *fixed, *words, path=path)

    def count(self) -> int:
        """Returns the number of workers that the scheduler knows."""
        return len(self.client.run(os.getpid))

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kills a process."""
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Ends all processes."""
        self.client.close()
        for process in self.processes:
            self.end(process)


@contextlib.contextmanager
def dask(home: Path, security: Any = None, **environment: str) -> Iterator[Dask]:
    """Gives a cluster without workers, whose processes have these variables. With the security of
    Dask, its connections are encrypted."""
    cluster = Dask(home, environment, security)
    try:
        yield cluster
    finally:
        cluster.close()
