"""The tables of results: their columns, and files that are the same for the same rows."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from .errors import TRACE

#: Figures of a job, one row for each size.
FIGURES = pa.schema(
    [
        ("memory", pa.string()),
        ("memory_bytes", pa.uint64()),
        ("format", pa.string()),
        ("requests", pa.uint64()),
        ("footprint_blocks", pa.uint64()),
        ("block_accesses", pa.uint64()),
        ("block_misses", pa.uint64()),
        ("miss_ratio", pa.float64()),
        ("mean_ns", pa.float64()),
        ("p50_ns", pa.uint64()),
        ("p99_ns", pa.uint64()),
        ("p99_99_ns", pa.uint64()),
        ("max_ns", pa.uint64()),
        ("elapsed_ns", pa.uint64()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("notes", pa.string()),
    ]
)
#: Columns of the results before the figures.
NAMES = [
    ("trace", pa.string()),
    ("class", pa.string()),
    ("policy", pa.string()),
    ("compression", pa.string()),
    ("drive", pa.string()),
]
RESULTS = pa.schema([*NAMES, *FIGURES, pa.field("identity", pa.string()), ("job", pa.string())])

_JOB = b"overdrive.job"
_ROW_GROUP = 1 << 16


def figures(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Returns the figures of a job as a table."""
    return pa.Table.from_pylist(list(rows), schema=FIGURES)


def parquet(table: pa.Table) -> bytes:
    """Returns a table as a Parquet file. The bytes depend on the table only."""
    out = io.BytesIO()
    pq.write_table(
        table.combine_chunks(),
        out,
        version="2.6",
        compression="zstd",
        row_group_size=_ROW_GROUP,
        data_page_version="1.0",
    )
    return out.getvalue()


def part(table: pa.Table, parameters: dict[str, Any]) -> bytes:
    """Returns the figures of a job as a file that also has the parameters of the job.

    The few rows have no dictionaries, statistics and compression, which would take more time and
    space than they save.
    """
    text = json.dumps(parameters, sort_keys=True).encode()
    out = io.BytesIO()
    schema = table.schema.with_metadata({_JOB: text})
    with pq.ParquetWriter(
        out,
        schema,
        version="2.6",
        compression="none",
        use_dictionary=False,
        write_statistics=False,
    ) as writer:
        writer.write_table(table.replace_schema_metadata({_JOB: text}))
    return out.getvalue()


def read_part(data: bytes, parameters: dict[str, Any]) -> pa.Table | None:
    """Returns the figures of a part. None: the file is damaged, or of another job."""
    try:
        table = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False)
    except (pa.ArrowException, OSError):
        return None
    metadata = table.schema.metadata or {}
    is_same = metadata.get(_JOB) == json.dumps(parameters, sort_keys=True).encode()
    if not is_same or not table.schema.equals(FIGURES, check_metadata=False):
        return None
    return table.replace_schema_metadata(None)


def results(parts: Sequence[tuple[dict[str, str], pa.Table]]) -> pa.Table:
    """Joins the figures of jobs, each with the values of its other columns, in this order."""
    joined = pa.concat_tables([FIGURES.empty_table(), *(table for _, table in parts)])
    of_rows = [names for names, table in parts for _ in range(table.num_rows)]
    columns = []
    for field in RESULTS:
        if field.name == "error":
            columns.append(_with_traces(joined.column("error"), of_rows))
        elif field.name in FIGURES.names:
            columns.append(joined.column(field.name))
        else:
            columns.append(pa.array([names[field.name] for names in of_rows], pa.string()))
    return pa.table(columns, schema=RESULTS).combine_chunks()


def _with_traces(errors: pa.ChunkedArray, of_rows: Sequence[dict[str, str]]) -> pa.ChunkedArray:
    """Returns the reasons with the names of the traces."""
    if errors.null_count == len(errors):
        return errors
    named = [
        None if error is None else error.replace(TRACE, names["trace"])
        for error, names in zip(errors.to_pylist(), of_rows, strict=True)
    ]
    return pa.chunked_array([pa.array(named, pa.string())])


def csv(table: pa.Table) -> bytes:
    """Returns a table as CSV."""
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out)
    return out.getvalue()


def json_lines(table: pa.Table) -> str:
    """Returns a table as lines of JSON."""
    return "".join(json.dumps(row) + "\n" for row in table.to_pylist())
