"""Traces as tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from conftest import Program, Requests

import overdrive


def test_a_table_has_the_requests_of_the_file(requests: Requests) -> None:
    trace = overdrive.open_trace(requests.path)
    assert (trace.format, trace.path) == ("csv", str(requests.path))
    table = trace.to_arrow()
    assert table.to_pylist() == requests.rows
    assert pa.types.is_dictionary(table.schema.field("device").type)
    table.validate(full=True)


def test_batches_have_the_requested_rows_and_the_same_requests(requests: Requests) -> None:
    batches = list(overdrive.open_trace(requests.path).batches(999))
    assert [batch.num_rows for batch in batches] == [999] * 20 + [20]
    for batch in batches:
        batch.validate(full=True)
    assert [row for batch in batches for row in batch.to_pylist()] == requests.rows
    with pytest.raises(overdrive.UsageError, match="rows 0"):
        overdrive.open_trace(requests.path).batches(0)


def test_other_libraries_accept_a_trace(requests: Requests) -> None:
    trace = overdrive.open_trace(requests.path)
    assert pa.table(trace).to_pylist() == requests.rows


def test_polars_and_pandas_read_it(requests: Requests) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    trace = overdrive.open_trace(requests.path)
    frame = polars.from_arrow(trace.to_arrow())
    rows = [row for row in requests.rows if row["device"] == "sda"]
    of_sda = frame.filter(polars.col("device").cast(polars.String) == "sda")
    assert of_sda["bytes"].sum() == sum(row["bytes"] for row in rows)
    found = trace.to_arrow().to_pandas()
    assert isinstance(found, pandas.DataFrame)
    assert list(found["operation"]) == [row["operation"] for row in requests.rows]


def test_the_properties_are_those_of_the_program(program: Program, trace: str) -> None:
    opened = overdrive.open_trace(trace)
    assert opened.info() == program("trace", "info", trace, "--json")
    only = opened.info(devices="sdb")
    assert only == program("trace", "info", trace, "--json", "--device", "sdb")
    assert only["requests"] < opened.info()["requests"]
    with pytest.raises(overdrive.UsageError, match="^devices sdz: .*has no such device"):
        opened.info(devices=["sdz"])


def test_an_error_in_the_middle_comes_with_its_batch(requests: Requests, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.csv"
    lines = requests.path.read_text().splitlines()
    # The first MiB or so is read at once, to detect the format.
    lines += lines[1:] * 4
    lines[90_000] = "nonsense"
    damaged.write_text("\n".join(lines))
    reader = overdrive.open_trace(damaged).batches(1000)
    assert reader.read_next_batch().num_rows == 1000
    with pytest.raises(overdrive.MalformedError, match="damaged.csv: read as csv: line 90001"):
        reader.read_all()


def test_a_format_is_detected_or_named(requests: Requests, tmp_path: Path) -> None:
    assert "csv" in overdrive.formats()
    assert overdrive.open_trace(requests.path, format="CSV").format == "csv"
    with pytest.raises(overdrive.UsageError, match="format cvs: there is no such format"):
        overdrive.open_trace(requests.path, format="cvs")
    with pytest.raises(overdrive.NotFoundError):
        overdrive.open_trace(tmp_path / "absent")
