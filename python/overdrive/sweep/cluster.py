"""Jobs on a Dask cluster, whose scheduling, retries and data movement are used as they are."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .errors import TRACE, JobError, SweepError
from .jobs import Batch, Job, Result, failed, run_batch
from .sizes import words
from .storage import reason_of

#: Schemes of ``--on``, and those of Dask. TLS is configured by Dask's own settings.
SCHEMES = {"dask://": "tcp://", "dask+tls://": "tls://"}
_CONNECT_SECONDS = 15
#: Time between two checks that the cluster has workers.
_WATCH_SECONDS = 5.0
#: Beginning of the names of tasks.
_KEY = "overdrive-sweep-"
#: Beginning of the variables that set Dask's certificates.
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"


def scheduler_address(on: str) -> str:
    """Returns Dask's address of a scheduler.

    Raises:
        SweepError: it has another form.
    """
    for scheme, its in SCHEMES.items():
        rest = on.removeprefix(scheme)
        if rest != on and rest.rpartition(":")[2].isdigit():
            return its + rest
    raise SweepError(f"--on {on}: is no address; write dask://HOST:PORT, of the scheduler")


class Cluster:
    """A connection to a scheduler."""

    def __init__(
        self, on: str, version: str, job_bytes: int | None, message: Callable[[str], None]
    ) -> None:
        self.on = on
        self.message = message
        address = scheduler_address(on)
        try:
            from distributed import Client
        except ImportError:
            what = f"run {sys.executable} -m pip install distributed"
            raise SweepError(f"--on: requires Dask; {what}") from None
        _check_encryption(on, address)
        try:
            self.client: Any = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # noqa: BLE001: Dask has errors of all kinds
            what = "start one by `dask scheduler`, or mend the address"
            if address.startswith("tls://"):
                what += ", or the certificates in Dask's configuration"
            reason = reason_of(error)
            raise SweepError(f"--on {on}: no scheduler answers ({reason}); {what}") from None
        self.resources: dict[str, float] | None = None
        try:
            self.workers = self._check_workers(version)
            self.resources = self._resources(job_bytes)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection; the scheduler forgets jobs that have not ended."""
        self.client.close()

    def _check_workers(self, version: str) -> int:
        """Returns the number of workers, all of which have this version of the package."""
        found: dict[str, Any] = self.client.run(_version_probe(), on_error="return")
        if not found:
            raise SweepError(f"--on {self.on}: the cluster has no workers; {self._start_some()}")
        for worker, its in sorted(found.items()):
            if its != version:
                has = "no package overdrive" if its is None else f"version {its} of overdrive"
                if isinstance(its, BaseException):
                    has = f"an error in place of a version of overdrive: {its}"
                raise SweepError(
                    f"--on {self.on}: worker {worker} has {has}, and the sweep has {version}; "
                    "install the same wheel on all workers"
                )
        return len(found)

    def _resources(self, job_bytes: int | None) -> dict[str, float] | None:
        """Returns the resources of a job. A worker without them would never receive it."""
        if job_bytes is None:
            return None
        most = max(self._memory_of_workers(), default=0)
        if most < job_bytes:
            has = f"at most {words(most)}" if most else "none"
            raise SweepError(
                f"--on {self.on}: a job needs {words(job_bytes)} of memory, and the workers "
                f"declare {has}; start them with --resources \"memory={job_bytes}\" or more"
            )
        return {"memory": job_bytes}

    def _memory_of_workers(self) -> list[float]:
        """Returns the memory that each worker declares, in bytes; 0: none."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return [worker.get("resources", {}).get("memory", 0) for worker in workers]

    def _start_some(self) -> str:
        resources = ""
        if self.resources is not None:
            resources = f' --resources "memory={self.resources["memory"]:.0f}"'
        return f"start some by `dask worker {scheduler_address(self.on)}{resources}`"

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Reports while no worker can take a job: Dask waits for one without a word."""
        ended = threading.Event()

        def watch() -> None:
            is_reported = False
            while not ended.wait(_WATCH_SECONDS):
                try:
                    memory = self._memory_of_workers()
                except Exception:  # noqa: BLE001: Dask has errors of all kinds
                    # The loss of the scheduler ends the jobs.
                    continue
                needed = self.resources["memory"] if self.resources is not None else 0
                is_lost = all(its < needed for its in memory)
                if is_lost and not is_reported and not ended.is_set():
                    what = f"the sweep waits for another; {self._start_some()}"
                    self.message(f"overdrive: --on {self.on}: the last worker is lost; {what}")
                is_reported = is_lost

        # It may wait for a scheduler that is lost, and holds up nothing.
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def run(self, batches: Sequence[Batch]) -> Iterator[list[tuple[Job, Result]]]:
        """Yields jobs with their results as they end.

        Raises:
            SweepError: the connection to the scheduler is lost.
        """
        with self._watched():
            yield from self._run(batches)

    def _run(self, batches: Sequence[Batch]) -> Iterator[list[tuple[Job, Result]]]:
        from distributed import as_completed

        by_key = {_KEY + batch.key: batch for batch in batches}
        futures = self._submit(by_key)
        try:
            ended = as_completed(
                futures, loop=self.client.loop, with_results=True, raise_errors=False
            )
            for found in ended.batches():
                for future, value in found:
                    batch = by_key[future.key]
                    if isinstance(value, list):
                        yield list(zip(batch.jobs, value, strict=True))
                    elif len(batch.jobs) == 1:
                        yield [(batch.jobs[0], self._failed(batch.jobs[0], future, value))]
                    else:
                        self._check(future)
                        singly = {_KEY + one.key: one for one in batch.singly()}
                        by_key.update(singly)
                        futures += (again := self._submit(singly))
                        ended.update(again)
                    future.release()
        finally:
            # Not by force: another sweep may have the same jobs.
            self.client.cancel([one for one in futures if not one.done()])

    def _submit(self, batches: dict[str, Batch]) -> list[Any]:
        """Hands batches to the scheduler. Returns their futures."""
        futures: list[Any] = self.client.map(
            run_batch,
            list(batches.values()),
            key=list(batches),
            resources=self.resources,
            pure=True,
        )
        return futures

    def _check(self, future: Any) -> None:
        if future.status in ("cancelled", "lost"):
            what = "run the same command again to go on"
            raise SweepError(f"--on {self.on}: the scheduler has dropped the jobs; {what}")

    def _failed(self, job: Job, future: Any, value: Any) -> Result:
        """Returns the result of a job that Dask has given up."""
        self._check(future)
        error = value[1] if isinstance(value, tuple) else value
        return failed(job, JobError(f"{TRACE}: {reason_of(error)}", lasting=False))


def _check_encryption(on: str, address: str) -> None:
    """Checks the settings of TLS. A client that Dask refuses for them would take half a minute to
    end.

    Raises:
        SweepError: Dask's configuration has no usable certificates, or requires them.
    """
    from distributed.security import Security

    security: Any = Security()
    if not address.startswith("tls://"):
        if security.require_encryption:
            what = f"write {on.replace('dask:', 'dask+tls:')}"
            raise SweepError(f"--on {on}: Dask's configuration requires encryption; {what}")
        return
    variables = ", ".join(f"{_TLS}{name}" for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY"))
    what = f"mend it, or set {variables}"
    try:
        has_certificates = security.get_connection_args("client").get("ssl_context") is not None
    except OSError as error:
        reason = f"certificates of Dask's configuration cannot be read: {reason_of(error)}"
        raise SweepError(f"--on {on}: {reason}; {what}") from None
    if not has_certificates:
        raise SweepError(f"--on {on}: Dask's configuration has no certificates; {what}")


def _version_probe() -> Callable[[], str | None]:
    """Returns a function that is sent by value: a worker may not have this package."""

    def probe() -> str | None:
        try:
            import overdrive
        except ImportError:
            return None
        return str(overdrive.__version__)

    return probe
