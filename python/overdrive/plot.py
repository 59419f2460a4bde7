"""Plots by matplotlib, which is the extra ``overdrive[plot]``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ._bench import BenchResult
from .errors import Error, UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["latency_percentiles", "miss_ratio_curve"]

#: Columns of percentiles, with the share of slower requests.
_PERCENTILES = [
    ("p50_ns", 0.5),
    ("p90_ns", 0.1),
    ("p99_ns", 0.01),
    ("p99_9_ns", 0.001),
    ("p99_99_ns", 0.0001),
]


def _axes(ax: Axes | None) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        what = f"run {sys.executable} -m pip install matplotlib"
        raise Error(f"plots require matplotlib; {what}") from None
    return pyplot.subplots()[1]


def _check(table: object, columns: list[str]) -> None:
    if not isinstance(table, pa.Table):
        raise UsageError(f"table: is a {type(table).__name__}; give a table of this package")
    for name in columns:
        if name not in table.column_names:
            raise UsageError(f"table: has no column {name!r}; give a table of this package")


def _plain_numbers(axis: Any) -> None:
    """Labels a logarithmic axis with plain numbers instead of powers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _log_ticks(axis: Any, low: float, high: float) -> None:
    """Places ticks on a logarithmic axis: at 1, 2 and 5 of each power if there are few powers."""
    from matplotlib.ticker import LogLocator

    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    _plain_numbers(axis)


def miss_ratio_curve(table: pa.Table, ax: Axes | None = None) -> Axes:
    """Plots the miss ratios of :func:`overdrive.simulate` over the memory, one line per policy.

    Args:
        table: Runs of one trace.
        ax: Where to plot. None: in a new figure.

    Raises:
        UsageError: The table has no runs, or those of several traces.
        Error: matplotlib is not installed.
    """
    _check(table, ["trace", "policy", "memory_bytes", "miss_ratio"])
    traces = table.column("trace").unique().to_pylist()
    if len(traces) != 1:
        raise UsageError(f"table: has {len(traces)} traces; give the rows of one")
    axes = _axes(ax)
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in table.select(["policy", "memory_bytes", "miss_ratio"]).to_pylist():
        point = (row["memory_bytes"] / (1 << 20), row["miss_ratio"])
        lines.setdefault(row["policy"], []).append(point)
    for policy, points in lines.items():
        points.sort()
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=policy)
    axes.set_xscale("log", base=2)
    _plain_numbers(axes.xaxis)
    axes.set_xlabel("memory (MiB)")
    axes.set_ylabel("miss ratio")
    axes.set_ylim(0, 1)
    axes.set_title(traces[0])
    axes.legend()
    found: Axes = axes
    return found


def latency_percentiles(result: BenchResult | pa.Table, ax: Axes | None = None) -> Axes:
    """Plots the latency percentiles of a suite's tests, one line per test.

    Args:
        result: The result of :func:`overdrive.bench`, or its table.
        ax: Where to plot. None: in a new figure.

    Raises:
        UsageError: No test has latencies.
        Error: matplotlib is not installed.
    """
    table = result.table() if isinstance(result, BenchResult) else result
    _check(table, ["test", *(name for name, _ in _PERCENTILES)])
    rows = [row for row in table.to_pylist() if row["p50_ns"] is not None]
    if not rows:
        raise UsageError("result: no test has latencies")
    axes = _axes(ax)
    for row in rows:
        points = [(1 / share, row[name]) for name, share in _PERCENTILES if row[name] is not None]
        label = row["test"] + {True: ", cold", False: ", warm"}.get(row["cold"], "")
        axes.plot([x for x, _ in points], [y / 1e3 for _, y in points], marker="o", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    _log_ticks(axes.yaxis, low, high)
    axes.set_xticks([1 / share for _, share in _PERCENTILES])
    axes.set_xticklabels([f"{100 * (1 - share):g} %" for _, share in _PERCENTILES])
    axes.set_xlabel("share of the requests")
    axes.set_ylabel("latency at most (µs)")
    axes.legend()
    found: Axes = axes
    return found
