"""A sweep: jobs that are not done yet, on this machine or a cluster, and the joined results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from . import local, native, table
from .cluster import Cluster
from .errors import TRACE, JobError, SweepError
from .jobs import Job, Result, batches, failed, plan, weight
from .manifest import Manifest
from .progress import Progress
from .storage import CSV, PARTS, RESULTS, Store, is_url, open_store
from .traces import Trace, find, identify

SCHEMA = "overdrive.sweep/1"
#: Threads that read and write files of results; object stores answer slowly.
_THREADS = 16


@dataclass
class Summary:
    """The end of a sweep."""

    manifest: str
    output: str
    on: str
    workers: int
    traces: int
    jobs: int
    resumed: int = 0
    ran: int = 0
    complete: bool = False
    rows: int = 0
    marked: list[str] = field(default_factory=list)
    marked_rows: int = 0
    noted_traces: int = 0
    job_seconds: float = 0.0
    #: Of the jobs, the time of simulations and replays alone: elapsed, and of processors.
    simulation_seconds: float = 0.0
    simulation_cpu_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    stopped: str | None = None

    def count(self, result: Result) -> None:
        """Adds a job that has ended."""
        self.ran += 1
        self.job_seconds += result.seconds
        self.simulation_seconds += result.simulation_seconds
        self.simulation_cpu_seconds += result.simulation_cpu_seconds

    def json(self) -> dict[str, Any]:
        """Returns the object of ``--json``."""
        return {
            "schema": SCHEMA,
            "version": native.version(),
            "manifest": self.manifest,
            "output": self.output,
            "on": self.on,
            "workers": self.workers,
            "complete": self.complete,
            "stopped": self.stopped,
            "traces": self.traces,
            "jobs": self.jobs,
            "resumed": self.resumed,
            "ran": self.ran,
            "rows": self.rows,
            "marked_rows": self.marked_rows,
            "marked": self.marked,
            "noted_traces": self.noted_traces,
            "job_ns": round(self.job_seconds * 1e9),
            "elapsed_ns": round(self.elapsed_seconds * 1e9),
        }


class Sweep:
    """A checked sweep, ready to run.

    Raises:
        ManifestError: no file matches a trace's path.
        SweepError: a package for a URL is missing, or the results cannot be written.
    """

    def __init__(self, manifest: Manifest, progress: Progress | None = None) -> None:
        self.manifest = manifest
        self.progress = progress or Progress()
        self.store: Store = open_store(manifest.output, manifest.folder)
        # Buckets, and folders with very many files, take their time.
        self.progress.start("listing traces")
        try:
            self.traces = find(manifest)
        finally:
            self.progress.end()

    def run(
        self, on: str | None = None, workers: int | None = None
    ) -> tuple[Summary, pa.Table]:
        """Runs the jobs that have no results yet, and writes the results of all.

        Ctrl-C, or the loss of the cluster, ends it with the results of the jobs that are done.

        Raises:
            SweepError: the cluster is not usable, or results cannot be written.
            KeyboardInterrupt: Ctrl-C before the first job.
        """
        begin = time.monotonic()
        count = local.worker_count(workers or self.manifest.workers, self.manifest.memory_bytes)
        cluster = self._connect(on) if on is not None else None
        summary = Summary(
            manifest=self.manifest.path,
            output=self.store.name_of("").rstrip("/"),
            on=on or "local",
            workers=cluster.workers if cluster else count,
            traces=len(self.traces),
            jobs=0,
        )
        try:
            found = self._run(summary, cluster, count)
        finally:
            if cluster is not None:
                cluster.close()
            self.progress.end()
        summary.elapsed_seconds = time.monotonic() - begin
        return summary, found

    def _connect(self, on: str) -> Cluster:
        self.progress.start(f"waiting for the scheduler {on}")
        try:
            memory_bytes = self.manifest.memory_bytes
            return Cluster(on, native.version(), memory_bytes, self.progress.message)
        except BaseException:
            self.progress.end()
            raise

    def _run(self, summary: Summary, cluster: Cluster | None, workers: int) -> pa.Table:
        planned: list[tuple[Trace, Job]] = []
        parts: dict[str, pa.Table] = {}
        try:
            self.progress.start(
                "reading traces", sum(one.bytes for one in self.traces), len(self.traces)
            )
            is_remote = any(is_url(one.path) for one in self.traces)
            threads = max(workers, _THREADS if is_remote else 1)
            traces = identify(self.traces, self.store, threads, self.progress)
            planned = plan(self.manifest, traces)
            summary.jobs = len({job.key for trace, job in planned if trace.error is None})
            self._compute(planned, parts, summary, cluster, workers)
            summary.complete = True
        except KeyboardInterrupt:
            if not planned:
                raise
            summary.stopped = "interrupted"
        except SweepError as error:
            if not parts:
                raise
            summary.stopped = str(error)
        return self._join(planned, parts, summary)

    def _compute(
        self,
        planned: list[tuple[Trace, Job]],
        parts: dict[str, pa.Table],
        summary: Summary,
        cluster: Cluster | None,
        workers: int,
    ) -> None:
        """Fills ``parts``, by the keys of the jobs."""
        weights = {}
        jobs: dict[str, Job] = {}
        for trace, job in planned:
            if trace.error is not None:
                error = JobError(f"{TRACE}: {trace.error}", lasting=False)
                parts[job.key] = table.figures(failed(job, error).rows)
                continue
            jobs[job.key] = job
            weights[job.key] = weight(trace, job)
        with ThreadPoolExecutor(_THREADS) as files:
            parts.update(self._done(jobs, files))
            left = [job for key, job in jobs.items() if key not in parts]
            summary.resumed = len(jobs) - len(left)
            # The longest first: at the end, workers wait for short ones.
            left.sort(key=lambda job: -weights[job.key])
            workers = cluster.workers if cluster else workers
            grouped = batches(left, weights, workers)
            self.progress.start("jobs", sum(weights[job.key] for job in left), len(left))
            writes: list[Future[None]] = []
            results = cluster.run(grouped) if cluster else local.run(grouped, workers)
            try:
                with closing(results):  # type: ignore[type-var]
                    for ended in results:
                        self._keep(ended, parts, files, writes)
                        for job, result in ended:
                            summary.count(result)
                            self.progress.step("jobs", weights[job.key])
            finally:
                for write in writes:
                    write.result()

    def _done(self, jobs: dict[str, Job], files: ThreadPoolExecutor) -> Iterator[tuple[str, pa.Table]]:
        """Yields the jobs that have a whole part from before."""
        names = self.store.names(PARTS)
        known = [job for key, job in jobs.items() if _part(key) in names]

        def read(job: Job) -> pa.Table | None:
            data = self.store.read(f"{PARTS}/{_part(job.key)}")
            return table.read_part(data, job.parameters()) if data else None

        for job, found in zip(known, files.map(read, known), strict=True):
            if found is not None:
                yield job.key, found

    def _keep(
        self,
        ended: Sequence[tuple[Job, Result]],
        parts: dict[str, pa.Table],
        files: ThreadPoolExecutor,
        writes: list[Future[None]],
    ) -> None:
        """Takes the figures of jobs, and stores them unless a job may succeed another time."""
        lasting = []
        for job, result in ended:
            parts[job.key] = table.figures(result.rows)
            if result.lasting:
                lasting.append((job, parts[job.key]))
        writes.append(files.submit(self._store, lasting))
        while len(writes) > 2 * _THREADS or writes and writes[0].done():
            writes.pop(0).result()

    def _store(self, parts: Sequence[tuple[Job, pa.Table]]) -> None:
        for job, found in parts:
            self.store.write(f"{PARTS}/{_part(job.key)}", table.part(found, job.parameters()))

    def _join(
        self, planned: list[tuple[Trace, Job]], parts: dict[str, pa.Table], summary: Summary
    ) -> pa.Table:
        """Writes the results of all jobs that have ended, in the order of the manifest."""
        rows = []
        for trace, job in planned:
            if job.key in parts:
                names = {
                    "trace": trace.name,
                    "class": trace.workload,
                    "policy": job.policy,
                    "compression": job.compression,
                    "drive": job.drive,
                    "identity": trace.identity,
                    "job": job.key,
                }
                rows.append((names, parts[job.key]))
        joined = table.results(rows)
        errors = joined.column("error").to_pylist()
        summary.rows = joined.num_rows
        summary.marked_rows = sum(error is not None for error in errors)
        noted = joined.filter(joined.column("notes").is_valid())
        summary.noted_traces = len(noted.column("trace").unique())
        summary.marked = list(dict.fromkeys(error for error in errors if error is not None))
        if rows:
            self.store.write(RESULTS, table.parquet(joined))
            self.store.write(CSV, table.csv(joined))
        return joined


def _part(key: str) -> str:
    return f"{key}.parquet"
