"""Jobs: pure functions of a trace's contents and a few parameters.

A job is one trace with one policy, one compression and one drive, for all sizes: the trace is read
once for them. Different policies are different jobs, so that one long trace keeps several workers
busy, a job's memory stays small, and a policy that is added later does not repeat the others.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import native
from .errors import JobError
from .manifest import NO_COMPRESSION, NO_DRIVE, Manifest, Replay
from .traces import Trace, local_path

#: Raised with each change of the meaning of results, so that older ones are computed again.
FORM = 1
#: The trace in a reason: results are of contents, which may have several names.
TRACE = "{trace}"


@dataclass(frozen=True)
class Job:
    """A job, as a worker receives it."""

    path: str
    identity: str
    format: str | None
    policy: str
    compression: str
    drive: str
    #: None: without a drive.
    replay: Replay | None
    sizes: tuple[str, ...]
    count: str
    version: str

    def parameters(self) -> dict[str, Any]:
        """Returns all that the results depend on; not the path, but the contents."""
        found = {"form": FORM, **vars(self)}
        del found["path"]
        found.pop("key", None)
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
    seconds: float = 0.0
    #: Whether the same job would have the same result: it may be kept.
    lasting: bool = True


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
                        identity=trace.identity,
                        format=trace.format,
                        policy=policy,
                        compression=compression,
                        drive=drive,
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


def run_job(job: Job) -> Result:
    """Runs a job in this process. A failure is a result as well: its rows have the reason."""
    begin = time.monotonic()
    if job.version != native.version():
        reason = (
            f"this worker has version {native.version()} of overdrive, and the sweep has "
            f"{job.version}; install the same version on all workers"
        )
        return failed(job, JobError(reason, lasting=False))
    try:
        with local_path(job.path, job.identity) as path:
            result = _run(job, path)
    except JobError as error:
        result = failed(job, error)
    except Exception as error:  # noqa: BLE001: object stores have errors of all kinds
        reason = f"{TRACE}: {str(error) or type(error).__name__}"
        result = failed(job, JobError(reason, lasting=False))
    return Result(result.rows, time.monotonic() - begin, result.lasting)


def _run(job: Job, path: str) -> Result:
    try:
        return Result(_simulate(path, job, job.sizes))
    except JobError as error:
        # One impossible size, such as 1 % of ten blocks, does not spoil the others.
        if not error.of_parameters or len(job.sizes) == 1:
            raise JobError(_neutral(path, error), lasting=error.lasting) from None
    rows, lasting = [], True
    for size in job.sizes:
        try:
            rows += _simulate(path, job, (size,))
        except JobError as error:
            lasting &= error.lasting
            rows.append(_failed_row(size, _neutral(path, error)))
    return Result(rows, lasting=lasting)


def _simulate(path: str, job: Job, sizes: tuple[str, ...]) -> list[dict[str, Any]]:
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
