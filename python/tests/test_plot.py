"""Plots."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import overdrive
from overdrive import plot


def test_plots_are_a_part_of_the_package_which_does_not_need_matplotlib() -> None:
    script = (
        "import sys, overdrive; overdrive.plot.miss_ratio_curve; print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_curve_has_a_line_for_each_policy(trace: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    table = overdrive.simulate(trace, memory=["4M", "1M"], policies=["lru", "opt"])
    axes: Any = plot.miss_ratio_curve(table)
    lines = axes.get_lines()
    assert [line.get_label() for line in lines] == ["lru", "opt"]
    rows = table.to_pylist()
    points = [(1, rows[1]["miss_ratio"]), (4, rows[0]["miss_ratio"])]
    assert [tuple(point) for point in lines[0].get_xydata()] == points
    axes.figure.canvas.draw()
    assert {"1", "2", "4"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_latencies_have_a_line_for_each_test() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    result = overdrive.bench("qd1", "samsung-840-evo-250", time=1, span="64M")
    axes: Any = plot.latency_percentiles(result)
    lines = axes.get_lines()
    rows = [row for row in result.table().to_pylist() if row["p50_ns"] is not None]
    assert len(lines) == len(rows) > 0
    assert lines[0].get_xydata()[0][1] == rows[0]["p50_ns"] / 1e3


def test_tables_of_other_kinds_are_refused(trace: str) -> None:
    with pytest.raises(overdrive.UsageError, match="has no column 'trace'"):
        plot.miss_ratio_curve(pa.table({"a": [1]}))
    for function in (plot.miss_ratio_curve, plot.latency_percentiles):
        wrong: Any = function
        with pytest.raises(overdrive.UsageError, match="^table: is a dict"):
            wrong({})
    runs = overdrive.simulate(trace, memory="1M")
    with pytest.raises(overdrive.UsageError, match="has no column 'test'"):
        plot.latency_percentiles(runs)
