"""Suites on modelled drives, and lists of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import Program

import overdrive

#: A modelled drive and a suite that are quick without optimization.
DRIVE = "samsung-840-evo-250"


def without_origin(result: Any) -> Any:
    """Returns a result without the command, which the package does not have."""
    return {key: value for key, value in result.items() if key != "command"}


def test_results_are_those_of_the_program(program: Program) -> None:
    found = overdrive.bench("qd1", DRIVE, seed=7, time=1, span="64M")
    expected = program(
        "bench", "qd1", f"model:{DRIVE}?seed=7", "--time", "1s", "--span", "64M", "--json",
        "--no-history",
    )
    assert found.json == without_origin(expected)
    assert found.json["seed"] == 7
    rows = found.table().to_pylist()
    assert [row["test"] for row in rows] == [row["test"] for row in expected["rows"]]
    assert [row["p99_ns"] for row in rows] == [row.get("p99_ns") for row in expected["rows"]]
    assert any(row["p99_ns"] for row in rows)
    assert (found.suite, found.target) == ("qd1", f"model:{DRIVE}?seed=7")
    assert pa.table(found) == found.table()


def test_a_cache_is_put_in_front(program: Program, tmp_path: Path) -> None:
    names = ["hit", "miss", "fill", "absorb", "pass", "write_out", "flush"]
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({f"{name}_ns": 1000 for name in names}))
    bare = overdrive.bench("qd1", DRIVE, time=0.1, span="64M")
    cached = overdrive.bench("qd1", DRIVE, time=0.1, span="64M", cache="16M", prices=prices)
    expected = program(
        "bench", "qd1", f"model:{DRIVE}", "--time", "100ms", "--span", "64M", "--json",
        "--no-history", "--cache", "16M", "--prices", str(prices),
    )
    assert cached.json == without_origin(expected)
    assert (bare.json["cached"], cached.json["cached"]) == (False, True)
    assert bare.json["rows"] != cached.json["rows"]


def test_wrong_parameters_are_named() -> None:
    for suite, drive, parameters, says in [
        ("qd11", DRIVE, {}, "suite qd11: there is no such suite; did you mean 'qd1'?"),
        ("qd1", "samsung-840", {}, "drive model:samsung-840: "),
        ("qd1", DRIVE, {"cache": "1K"}, "cache 1 KiB: a cache needs at least 1 MiB"),
        ("qd1", DRIVE, {"cache": "x"}, "cache: 'x' is not a size"),
        ("qd1", DRIVE, {"only": "nothing"}, "only nothing: qd1 "),
        ("qd1", DRIVE, {"spare_percent": 95}, "spare_percent 95: write a number from 0 to 90"),
        ("qd1", DRIVE, {"state": "stedy"}, "state stedy: "),
        ("qd1", DRIVE, {"scale": 2}, "scale 2: is for generated traces"),
        ("qd1", DRIVE, {"span": "9T"}, "span 9 TiB: "),
        ("qd1", DRIVE, {"time": 0}, "time 0: write seconds above 0"),
        ("qd1", DRIVE, {"cache": "1G", "prices": "/absent"}, "prices /absent: "),
    ]:
        with pytest.raises(overdrive.UsageError) as error:
            overdrive.bench(suite, drive, **parameters)  # type: ignore[arg-type]
        assert str(error.value).startswith(says), f"{parameters}: {error.value}"


def test_lists_are_those_of_the_program(program: Program) -> None:
    suites = overdrive.suites().to_pylist()
    expected = program("bench", "list", "--json")["suites"]
    assert [{key: row[key] for key in expected[0]} for row in suites] == expected
    drives = overdrive.drives().to_pylist()
    models = program("drive", "models", "-J")["models"]
    assert len(drives) == len(models) > 10
    for drive, model in zip(drives, models):
        assert drive["bytes"] == model["capacity_bytes"]
        for key in ("name", "title", "kind", "interface", "version"):
            assert drive[key] == model[key]
        for key, value in model["published"].items():
            assert drive.get(key, value) == value
