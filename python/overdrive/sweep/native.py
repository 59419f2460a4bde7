"""The simulator of the package, as a sweep uses it."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import overdrive
from overdrive import _native
from overdrive._simulate import simulate_json

from .errors import JobError

BLOCK_BYTES = 4096


def version() -> str:
    """Returns the version of the package, which is that of the command."""
    return str(overdrive.__version__)


def policies() -> list[str]:
    """Returns the names of all policies."""
    return list(overdrive.policies())


def formats() -> list[str]:
    """Returns the names of all formats of traces."""
    return list(overdrive.formats())


@functools.cache
def drives() -> dict[str, str]:
    """Returns the versions of the modelled drives by their names."""
    table = overdrive.drives()
    return dict(zip(table.column("name").to_pylist(), table.column("version").to_pylist()))


def replay_fault(drive: str, state: str) -> str | None:
    """Returns the reason why no trace can be replayed on this drive in this state. None: it can."""
    try:
        _native.check_replay(drive, state)
    except overdrive.UsageError as error:
        return str(error)
    return None


@functools.cache
def served_policies() -> frozenset[str]:
    """Returns the policies of ``overdrive serve``: only these have compression and drives."""
    return frozenset(overdrive.policies(served=True))


@contextlib.contextmanager
def _errors_of_jobs() -> Iterator[None]:
    """Turns the package's exceptions into those of jobs."""
    try:
        yield
    except overdrive.UsageError as error:
        raise JobError(_with_keys(error), lasting=True, of_parameters=True) from None
    except overdrive.MalformedError as error:
        raise JobError(_with_keys(error), lasting=True) from None
    except overdrive.Error as error:
        raise JobError(str(error), lasting=False) from None


def _with_keys(error: Exception) -> str:
    """Returns a message with the keys of the manifest instead of parameters."""
    return re.sub(r"'(depth|map|state)'", r"replay.\1", str(error))


def _notes(found: dict[str, Any]) -> str | None:
    """Returns the facts by which a trace is not complete. None: there are none."""
    facts = [
        (found["cut"], "the recording is cut short"),
        (found["dropped"], f"{found['dropped']} requests were lost while recording"),
        (found["late"], f"{found['late']} requests are out of order"),
    ]
    return "; ".join(text for is_so, text in facts if is_so) or None


def simulate(
    path: str,
    *,
    policy: str,
    sizes: Sequence[str],
    format: str | None,
    ratio: float | None,
    count: str,
) -> list[dict[str, Any]]:
    """Returns the figures of a policy for each size, on one processor.

    Raises:
        JobError: the trace cannot be read, or a size is impossible for it.
    """
    with _errors_of_jobs():
        found = simulate_json(
            path,
            memory=list(sizes),
            policies=policy,
            format=format,
            devices=(),
            count=count,
            compress=ratio,
            map=None,
            sample=None,
            shards=1,
            threads=1,
        )
    part = "" if ratio is None else "compress_"
    return [
        {
            "memory_bytes": run["memory_bytes"],
            "format": found["format"],
            "requests": run["requests"],
            "footprint_blocks": found["footprint_blocks"],
            "notes": _notes(found),
            "block_accesses": run["block_accesses"],
            "block_misses": run[part + "block_misses"],
            "miss_ratio": run[part + "miss_ratio"],
        }
        for run in found["runs"]
    ]


def replay(
    path: str,
    drive: str,
    *,
    policy: str,
    memory_bytes: int,
    format: str | None,
    depth: int | None,
    map: Any,
    state: str,
) -> dict[str, Any]:
    """Returns the latencies of a trace's requests on a modelled drive behind a cache.

    Raises:
        JobError: the trace cannot be read, or not be replayed on this drive.
    """
    with _errors_of_jobs():
        found = overdrive.replay(
            path,
            drive,
            format=format,
            cache=memory_bytes,
            policy=policy,
            depth=depth,
            map=map,
            state=state,
        )
    latencies = {key: found["all"][key] for key in LATENCIES}
    return {**latencies, "elapsed_ns": found["elapsed_ns"]}


#: Latencies of a replay that are columns of the results.
LATENCIES = ("mean_ns", "p50_ns", "p99_ns", "p99_99_ns", "max_ns")
