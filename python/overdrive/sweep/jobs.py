"""Jobs: pure functions of a trace's contents and a few parameters.

A job is one trace with one policy, one compression and one drive, for all sizes: the trace is read
once for them. Different policies are different jobs, so that one long trace keeps several workers
busy, a job's memory stays small, and a policy that is added later does not repeat the others.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from . import native
from .errors import TRACE, JobError
from .manifest import NO_COMPRESSION, NO_DRIVE, Manifest, Replay
from .storage import reason_of
from .traces import Stamp, Trace, local_path

#: Raised with each change of the meaning of results, so that older ones are computed again.
FORM = 2


@dataclass(frozen=True)
class Job:
    """A job, as a worker receives it."""

    path: str
    #: The file when its contents were identified. None: the trace is at a URL.
    stamp: Stamp | None
    identity: str
    format: str | None
    policy: str
    compression: str
    drive: str
    #: The version of the drive's model. None: without a drive.
    model: str | None
    #: None: without a drive.
    replay: Replay | None
    sizes: tuple[str, ...]
    count: str
    version: str

    def parameters(self) -> dict[str, Any]:
        """Returns all that the results depend on; not the path, but the contents."""
        found = {"form": FORM, **vars(self)}
        for name in ("path", "stamp", "key"):
            found.pop(name, None)
        return {**found, "replay": None if self.replay is None else asdict(self.replay)}

    @functools.cached_property
    def key(self) -> str:
        """The digest of the parameters."""
        text = json.dumps(self.parameters(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Result:
    """Figures of a job, one row for each size; or the reason that there are none."""

    rows: list[dict[str, Any]]
    #: Whether the same job would have the same result: it may be kept.
    lasting: bool = True
    #: Time of the job.
    seconds: float = 0.0
    #: Time of its simulations and replays alone: elapsed, and of the processor.
    simulation_seconds: float = 0.0
    simulation_cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Batch:
    """Jobs that one worker receives together, and whose results it returns together."""

    jobs: tuple[Job, ...]

    @property
    def key(self) -> str:
        """A name that is the same for the same jobs."""
        if len(self.jobs) == 1:
            return self.jobs[0].key
        return hashlib.sha256("".join(job.key for job in self.jobs).encode()).hexdigest()[:32]

    def singly(self) -> list[Batch]:
        """Returns a batch for each job."""
        return [Batch((job,)) for job in self.jobs]


#: Limits of a batch: its jobs, and the bytes of their traces. A batch takes some tenths of a second.
_BATCH_JOBS_MAX = 16
_BATCH_BYTES_MAX = 4 << 20
#: Batches of each worker, at least: workers end at about the same time.
_BATCHES_OF_WORKER = 8


#: Bytes of a trace that are simulated in about the time in which a modelled drive is filled.
_DRIVE_BYTES = 256 << 20


def weight(trace: Trace, job: Job) -> int:
    """Returns the bytes of a trace whose simulation takes about the time of this job."""
    replays = 0 if job.replay is None else len(job.sizes)
    return max(trace.bytes, 1) + replays * (_DRIVE_BYTES + trace.bytes)


def batches(jobs: Sequence[Job], weights: Mapping[str, int], workers: int) -> list[Batch]:
    """Groups short neighbouring jobs, whose transport would cost as much as they do.

    Args:
        jobs: The jobs, in the order in which they start.
        weights: The weights of the jobs, by their keys.
        workers: The number of workers.
    """
    most = min(_BATCH_JOBS_MAX, max(1, len(jobs) // (_BATCHES_OF_WORKER * workers)))
    found: list[Batch] = []
    now: list[Job] = []
    bytes_now = 0
    for job in jobs:
        more = weights[job.key]
        if now and (len(now) == most or bytes_now + more > _BATCH_BYTES_MAX):
            found.append(Batch(tuple(now)))
            now, bytes_now = [], 0
        now.append(job)
        bytes_now += more
    return [*found, Batch(tuple(now))] if now else found


def plan(manifest: Manifest, traces: Sequence[Trace]) -> list[tuple[Trace, Job]]:
    """Returns the jobs of a manifest in the order of the results.

    A policy that has no compressed tier is simulated without one only.
    """
    jobs = []
    version = native.version()
    for trace in traces:
        for drive in manifest.drives:
            for compression in manifest.compression:
                for policy in manifest.policies:
                    if not _is_possible(policy, compression, drive):
                        continue
                    jobs.append((trace, Job(
                        path=trace.path,
                        stamp=trace.stamp,
                        identity=trace.identity,
                        format=trace.format,
                        policy=policy,
                        compression=compression,
                        drive=drive,
                        model=native.drives().get(drive.partition("?")[0]),
                        replay=None if drive == NO_DRIVE else manifest.replay,
                        sizes=manifest.sizes,
                        count=manifest.count,
                        version=version,
                    )))
    return jobs


def _is_possible(policy: str, compression: str, drive: str) -> bool:
    """Whether there is such a cache: tiers and drives require a policy of ``overdrive serve``, and
    a replay has no data that could be compressed."""
    if compression != NO_COMPRESSION and drive != NO_DRIVE:
        return False
    is_plain = compression == NO_COMPRESSION and drive == NO_DRIVE
    return is_plain or policy in native.served_policies()


def run_batch(batch: Batch) -> list[Result]:
    """Runs the jobs of a batch in this process, one after the other."""
    return [run_job(job) for job in batch.jobs]


def run_job(job: Job) -> Result:
    """Runs a job in this process. A failure is a result as well: its rows have the reason."""
    begin = time.monotonic()
    if job.version != native.version():
        reason = (
            f"this worker has version {native.version()} of overdrive, and the sweep has "
            f"{job.version}; install the same version on all workers"
        )
        return failed(job, JobError(reason, lasting=False))
    clock = _Clock()
    try:
        with local_path(job.path, job.identity, job.stamp) as path:
            result = _run(job, path, clock)
    except JobError as error:
        result = failed(job, error)
    except Exception as error:  # noqa: BLE001: object stores have errors of all kinds
        reason = f"{TRACE}: {reason_of(error)}"
        result = failed(job, JobError(reason, lasting=False))
    return replace(
        result,
        seconds=time.monotonic() - begin,
        simulation_seconds=clock.seconds,
        simulation_cpu_seconds=clock.cpu_seconds,
    )


class _Clock:
    """The time of this thread in simulations."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Counts the time of a block of code."""
        begin, begin_cpu = time.monotonic(), time.thread_time()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begin
            self.cpu_seconds += time.thread_time() - begin_cpu


def _run(job: Job, path: str, clock: _Clock) -> Result:
    try:
        return Result(_simulate(path, job, job.sizes, clock))
    except JobError as error:
        # One impossible size, such as 1 % of ten blocks, does not spoil the others.
        if not error.of_parameters or len(job.sizes) == 1:
            raise JobError(_neutral(path, error), lasting=error.lasting) from None
    rows, lasting = [], True
    for size in job.sizes:
        try:
            rows += _simulate(path, job, (size,), clock)
        except JobError as error:
            lasting &= error.lasting
            rows.append(_failed_row(size, _neutral(path, error)))
    return Result(rows, lasting=lasting)


def _simulate(path: str, job: Job, sizes: tuple[str, ...], clock: _Clock) -> list[dict[str, Any]]:
    with clock.running():
        rows = native.simulate(
            path,
            policy=job.policy,
            sizes=sizes,
            format=job.format,
            ratio=None if job.compression == NO_COMPRESSION else float(job.compression),
            count=job.count,
        )
        if job.replay is not None:
            for row in rows:
                row |= native.replay(
                    path,
                    job.drive,
                    policy=job.policy,
                    memory_bytes=row["memory_bytes"],
                    format=job.format,
                    **asdict(job.replay),
                )
    return [
        {**row, "memory": size, "status": "ok"} for size, row in zip(sizes, rows, strict=True)
    ]


def _neutral(path: str, error: JobError) -> str:
    """Returns the message with the trace, but without its path on this worker."""
    text = error.message.replace(path, TRACE)
    return text if TRACE in text else f"{TRACE}: {text}"


def _failed_row(size: str, reason: str) -> dict[str, Any]:
    return {"memory": size, "status": "error", "error": reason}


def failed(job: Job, error: JobError) -> Result:
    """Returns the result of a job that has no figures."""
    rows = [_failed_row(size, error.message) for size in job.sizes]
    return Result(rows, lasting=error.lasting)
