"""Saved results as tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Program

import overdrive


def test_saved_simulations_are_the_tables_of_new_ones(
    program: Program, trace: str, tmp_path: Path
) -> None:
    saved = tmp_path / "sim.json"
    result = program("sim", "--json", "--trace", trace, "--memory", "1048576", "--policy", "lru")
    saved.write_text(json.dumps(result))
    table = overdrive.simulate(trace, memory=1 << 20, policies="lru")
    assert overdrive.read_result(saved).equals(table, check_metadata=True)


def test_saved_suites_are_tables(program: Program, tmp_path: Path) -> None:
    saved = tmp_path / "bench.json"
    result = program(
        "bench", "consistency", "model:samsung-840-evo-250", "--spare", "0,12", "--time", "1s",
        "--span", "64M", "--prepare", "fresh", "--json", "--no-history",
    )
    saved.write_text(json.dumps(result))
    rows = overdrive.read_result(saved).to_pylist()
    assert {row["spare_percent"] for row in rows} == {0, 12}, "variants have rows of their own"
    assert len(rows) == len(result["rows"]) + len(result["variants"][0]["rows"])
    assert overdrive.head(overdrive.read_result(saved))["seed"] == 1


def test_a_review_has_rows_for_each_column(tmp_path: Path) -> None:
    saved = tmp_path / "review.json"
    row = {"suite": "qd1", "test": "read", "unit": "IOPS", "value": 2.0, "p50_ns": 7}
    columns = [
        {"name": "bare", "rows": [row]},
        {"name": "warm", "rows": [{**row, "value": 8, "speed": 4.0, "change": "faster"}]},
    ]
    review = {"schema": "overdrive.review/1", "target": "model:x", "columns": columns}
    saved.write_text(json.dumps(review))
    bare, warm = overdrive.read_result(saved).to_pylist()
    assert (bare["column"], bare["target"], bare["speed"]) == ("bare", "model:x", None)
    assert (warm["value"], warm["speed"], warm["change"]) == (8.0, 4.0, "faster")


def test_files_that_are_no_results_are_refused(tmp_path: Path) -> None:
    for name, text, says in [
        ("text", "no json", "line 1, column 1: is no JSON"),
        ("half", '{"schema": "overdrive.sim/1",\n"runs": [', "line 2"),
        ("list", "[1]", "is no JSON object"),
        ("other", '{"schema": "overdrive.sim/9"}', "'schema' is 'overdrive.sim/9'"),
        ("none", "{}", "'schema' is None"),
        ("key", '{"schema": "overdrive.sim/1"}', "the key 'runs' is missing"),
        ("kind", '{"schema": "overdrive.sim/1", "runs": 5}', "is no overdrive.sim/1"),
        ("rows", '{"schema": "overdrive.sim/1", "runs": [5]}', "is no overdrive.sim/1"),
        ("value", '{"schema": "overdrive.sim/1", "runs": [{"trace": []}]}', "is no overdrive.sim/1"),
        ("null", '{"schema": "overdrive.sim/1", "runs": [{}]}', "the key 'trace' is missing"),
        ("deep", "[" * 100_000, "is no JSON"),
    ]:
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(overdrive.MalformedError) as error:
            overdrive.read_result(path)
        assert str(path) in str(error.value) and says in str(error.value), error.value
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(overdrive.MalformedError, match="is no JSON"):
        overdrive.read_result(tmp_path / "bytes")
    with pytest.raises(overdrive.NotFoundError, match="absent"):
        overdrive.read_result(tmp_path / "absent")
    with pytest.raises(overdrive.ReadError, match="directory"):
        overdrive.read_result(tmp_path)
