"""Suites on modelled drives."""

from __future__ import annotations

import json
import os
from typing import Any, final

import pyarrow as pa

from . import _native, _tables
from ._parameters import Size, number, path_text, size_bytes, text, whole
from ._replay import check_seed
from .errors import UsageError

__all__ = ["BenchResult", "bench", "drives", "suites"]


def drives() -> pa.Table:
    """Returns the modelled drives: one row for each.

    ``bytes`` is the size that the host sees; rates are those of the specification, in MB/s and in
    4 KiB requests per second, and null where none is published.
    """
    return _listed(_native.drives())


def suites() -> pa.Table:
    """Returns the suites: one row for each.

    ``time_ns`` is the duration of the timed parts (0: the suite ends by itself), ``span_bytes`` the
    part of the drive that it uses (null: all).
    """
    return _listed(_native.suites())


def _listed(text: str) -> pa.Table:
    return pa.Table.from_pylist(json.loads(text))


@final
class BenchResult:
    """Results of a suite, as ``overdrive bench --json`` prints them."""

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result

    def __repr__(self) -> str:
        return f"<overdrive.BenchResult {self.suite} on {self.target}: {self.headline}>"

    @property
    def json(self) -> dict[str, Any]:
        """The object ``overdrive.bench/1``. docs/SUITES.md describes its keys."""
        return self._result

    @property
    def suite(self) -> str:
        """The name of the suite."""
        return str(self._result["suite"])

    @property
    def target(self) -> str:
        """The target, as ``model:NAME?seed=N``."""
        return str(self._result["target"])

    @property
    def headline(self) -> str:
        """The result in one sentence."""
        return str(self._result.get("headline") or "")

    def table(self) -> pa.Table:
        """Returns one row for each test: ``test``, ``unit``, ``value``, and where the test has
        latencies ``mean_ns``, ``p50_ns`` to ``p99_99_ns``, ``max_ns``."""
        return _tables.rows(self._result)

    def to_pandas(self) -> Any:
        """Returns the rows as a data frame of pandas, which must be installed."""
        return self.table().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns the rows by the Arrow PyCapsule interface."""
        capsule: object = self.table().__arrow_c_stream__(requested_schema)
        return capsule


def bench(
    suite: str,
    drive: str,
    *,
    cache: Size | None = None,
    seed: int | None = None,
    state: str = "fresh",
    prepare: str | None = None,
    only: str | None = None,
    time: float | None = None,
    span: Size | None = None,
    spare_percent: int = 0,
    scale: float | None = None,
    era: int | None = None,
    prices: str | os.PathLike[str] | None = None,
) -> BenchResult:
    """Runs a suite on a modelled drive, in virtual time.

    The same arguments give the same result, which is that of ``overdrive bench --json``; with a
    cache also the prices of its work must be the same. Other threads of Python run meanwhile, and
    Ctrl-C ends the suite.

    Args:
        suite: A name of :func:`suites`.
        drive: A name of :func:`drives`, a path of a drive's file that contains ``/`` or ends in
            ``.toml``, or a target like ``"model:NAME?size=200GB&data=50"``.
        cache: Put a cache with this much memory in front: bytes, or text like ``"1G"``.
        seed: All choices follow from it. None: 1, or that of the target.
        state: State of the drive before: a name or steps, as for ``overdrive bench --state``.
        prepare: Preparation of the used part, instead of the suite's own.
        only: Only the test of this name.
        time: Duration of the timed parts, in seconds. None: the suite's own.
        span: The part of the drive that the suite uses, in bytes. None: the suite's own.
        spare_percent: The part of the drive that is left unused, from 0 to 90.
        scale: Scale of a generated trace; 1 for the whole one.
        era: The year of the test, for suites that reviewers changed.
        prices: A file with the costs of the cache's work, or ``"measure"``. None: those of this
            machine, which are measured once and stored.

    Raises:
        UsageError: A parameter is wrong, or the suite does not fit the drive.
        DeviceError: The drive failed.
        KeyboardInterrupt: Ctrl-C.
    """
    if time is not None and not 0 < number("time", time) < 1e9:
        raise UsageError(f"time {time}: write seconds above 0")
    found = _native.bench(
        text("suite", suite),
        text("drive", drive),
        cache=size_bytes("cache", cache),
        seed=check_seed(seed),
        state=text("state", state),
        prepare=None if prepare is None else text("prepare", prepare),
        scale=None if scale is None else number("scale", scale),
        only=None if only is None else text("only", only),
        spare_percent=whole("spare_percent", spare_percent, 0, 90),
        span=size_bytes("span", span),
        time_us=None if time is None else round(time * 1e6),
        era=None if era is None else whole("era", era, 1, 9999),
        prices=None if prices is None else path_text("prices", prices),
    )
    return BenchResult(json.loads(found))
