"""Simulated caches on traces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

from . import _native, _tables
from ._parameters import Path, Size, names, path_text, size_texts, text, whole
from ._replay import check_depth, replay
from .errors import UsageError

__all__ = ["policies", "simulate"]


def policies(*, served: bool = False) -> list[str]:
    """Returns the names of all policies.

    ``default`` is the policy of ``overdrive serve``; ``opt`` is the optimum, which uses the future.

    Args:
        served: Only policies that a cache can be served with. The others are simulated without
            compression, map and drive.
    """
    return _native.served_policies() if served else _native.policies()


def simulate(
    trace: Path,
    *,
    memory: Size | Sequence[Size],
    policies: str | Iterable[str] = "default",
    format: str | None = None,
    devices: str | Iterable[str] = (),
    count: Literal["all", "reads"] = "all",
    compress: float | str | None = None,
    drive: str | None = None,
    drive_depth: int | None = None,
    drive_map: Literal["wrap", "scale", "clip"] | None = None,
    map: Path | None = None,
    sample: float | Literal["auto"] | None = None,
    shards: int = 1,
    threads: int | None = None,
) -> pa.Table:
    """Simulates caches on a trace, in one pass over the file.

    The figures are those of ``overdrive sim --json``. Other threads of Python run meanwhile, and
    Ctrl-C ends the simulation.

    Args:
        trace: The file, which may be compressed by gzip, xz or zstd.
        memory: Sizes of the cache: bytes, text like ``"64M"``, or a share of the different blocks
            in the trace like ``"10%"``.
        policies: Names of :func:`policies`; each is simulated with each size.
        format: The trace's format. None: detected from its content.
        devices: Only requests of these devices, by their names in the trace. Empty: all.
        count: Whether writes count.
        compress: Also simulate each cache with compression: the mean ratio of the blocks, from 1
            to 512, or ``"auto-of:FILE"`` for the ratios of the blocks of a file or device.
        drive: Also replay the trace on this modelled drive behind each cache, as :func:`replay`
            does, in virtual time: for policies that a cache can be served with. The drive is
            filled before, which takes some seconds for each cache.
        drive_depth: Number of requests in flight, instead of the recorded times.
        drive_map: The mapping of :func:`replay` for a trace that does not fit on the drive.
        map: Also simulate each cache with this map of the files.
        sample: Simulate this share of the blocks, above 0 and up to 1. All miss ratios are then
            estimates. ``"auto"``: the largest share whose caches take at most 256 MiB.
        shards: Number of parts of each cache, a power of two.
        threads: Number of threads. None: all processors.

    Returns:
        One row for each policy and size: ``trace``, ``policy``, ``memory`` (as it was given),
        ``memory_bytes``, ``requests``, ``block_accesses`` and ``block_misses`` (blocks of 4 KiB),
        ``miss_ratio`` (0 to 1), and the columns of samples, compression and maps, which are null
        without these. With a drive: ``drive``, and of all requests ``mean_ns``, ``p50_ns``,
        ``p99_ns``, ``p99_99_ns``, ``max_ns`` and ``elapsed_ns``. :func:`head` returns the facts
        about the trace.

    Raises:
        UsageError: A parameter is wrong.
        NotFoundError: A file does not exist.
        PermissionDeniedError: A file may not be read.
        ReadError: A file cannot be read.
        MalformedError: The file is not a trace, or is damaged; the message has the line or byte.
        KeyboardInterrupt: Ctrl-C.
    """
    if drive is not None:
        _check_drive(drive, drive_depth, drive_map)
    elif drive_depth is not None or drive_map is not None:
        raise UsageError("drive_depth and drive_map are of a replay: give a drive, or omit them")
    result = simulate_json(
        trace,
        memory=memory,
        policies=policies,
        format=format,
        devices=devices,
        count=count,
        compress=compress,
        map=map,
        sample=sample,
        shards=shards,
        threads=threads,
    )
    if drive is None:
        return _tables.runs(result)
    served = _native.served_policies()
    for run in result["runs"]:
        if run["policy"] in served:
            _add_replay(
                run,
                trace,
                drive,
                format=format,
                devices=devices,
                depth=drive_depth,
                map=drive_map,
            )
    return _tables.runs(result, _tables.REPLAYED)


def _add_replay(run: dict[str, Any], trace: Path, drive: str, **parameters: Any) -> None:
    """Adds the columns of a replay behind the cache of this run."""
    try:
        replayed = replay(
            trace, drive, cache=run["memory_bytes"], policy=run["policy"], **parameters
        )
    except UsageError as error:
        message = re.sub(r"^cache [^:]*(?=: )", f"memory {run['memory']}", str(error))
        raise UsageError(_of_drive(message)) from None
    run["drive"] = drive
    run["elapsed_ns"] = replayed["elapsed_ns"]
    for field in ("mean_ns", "p50_ns", "p99_ns", "p99_99_ns", "max_ns"):
        run[field] = replayed["all"][field]


def _check_drive(drive: str, depth: int | None, map: str | None) -> None:
    """Refuses parameters that no replay could begin with, before a long simulation."""
    _native.check_replay(text("drive", drive), "filled")
    if map not in (None, "wrap", "scale", "clip"):
        raise UsageError(f"drive_map {map!r}: write 'wrap', 'scale' or 'clip'")
    try:
        check_depth(depth)
    except UsageError as error:
        raise UsageError(_of_drive(str(error))) from None


def _of_drive(message: str) -> str:
    """Returns a message of a replay with the parameters of a simulation."""
    return re.sub(r"^(depth|map)(?= )|(?<=')(depth|map)(?=')", r"drive_\g<0>", message)


def simulate_json(
    trace: Path,
    *,
    memory: Size | Sequence[Size],
    policies: str | Iterable[str],
    format: str | None,
    devices: str | Iterable[str],
    count: str,
    compress: float | str | None,
    map: Path | None,
    sample: float | str | None,
    shards: int,
    threads: int | None,
) -> dict[str, Any]:
    """Returns the object ``overdrive.sim/1``."""
    if count not in ("all", "reads"):
        raise UsageError(f"count {count!r}: write 'all' or 'reads'")
    chosen = names("policies", policies)
    if not chosen:
        raise UsageError("policies: is empty; give at least one name")
    found = _native.simulate(
        path_text("trace", trace),
        format=None if format is None else text("format", format),
        memory=size_texts("memory", memory),
        policies=chosen,
        devices=names("devices", devices),
        reads_only=count == "reads",
        shards=whole("shards", shards, 1, 65_535),
        threads=None if threads is None else whole("threads", threads, 1, 65_535),
        sample=None if sample is None else str(sample),
        compress=None if compress is None else str(compress),
        map=None if map is None else path_text("map", map),
    )
    result: dict[str, Any] = json.loads(found)
    return result
