"""Results as tables of Arrow, with one schema for each kind of result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

#: One row for each policy and size of a simulation. Memory in bytes, blocks of 4 KiB, ratios 0 to 1.
RUNS = pa.schema(
    [
        pa.field("trace", pa.string(), nullable=False),
        pa.field("policy", pa.string(), nullable=False),
        pa.field("memory", pa.string()),
        pa.field("memory_bytes", pa.uint64(), nullable=False),
        pa.field("requests", pa.uint64(), nullable=False),
        pa.field("block_accesses", pa.uint64(), nullable=False),
        pa.field("block_misses", pa.uint64(), nullable=False),
        pa.field("miss_ratio", pa.float64(), nullable=False),
        pa.field("sampled_slots", pa.uint64()),
        pa.field("trusted", pa.bool_()),
        pa.field("compress", pa.string()),
        pa.field("compress_block_misses", pa.uint64()),
        pa.field("compress_miss_ratio", pa.float64()),
        pa.field("compressed_hits", pa.uint64()),
        pa.field("compressed_blocks", pa.uint64()),
        pa.field("compressed_slots", pa.uint64()),
        pa.field("map_block_misses", pa.uint64()),
        pa.field("map_miss_ratio", pa.float64()),
        pa.field("map_followed", pa.bool_()),
    ]
)

#: Further columns of the runs of a simulation with a drive. Times in nanoseconds.
REPLAYED = [
    pa.field("drive", pa.string()),
    pa.field("mean_ns", pa.float64()),
    pa.field("p50_ns", pa.uint64()),
    pa.field("p99_ns", pa.uint64()),
    pa.field("p99_99_ns", pa.uint64()),
    pa.field("max_ns", pa.uint64()),
    pa.field("elapsed_ns", pa.uint64()),
]

#: A test of a suite. Times in nanoseconds.
_TEST = [
    pa.field("test", pa.string(), nullable=False),
    pa.field("unit", pa.string(), nullable=False),
    pa.field("value", pa.float64(), nullable=False),
    pa.field("cold", pa.bool_()),
    pa.field("ceiling", pa.float64()),
    pa.field("requests", pa.uint64()),
    pa.field("mean_ns", pa.float64()),
    pa.field("stdev_ns", pa.float64()),
    pa.field("p50_ns", pa.uint64()),
    pa.field("p90_ns", pa.uint64()),
    pa.field("p99_ns", pa.uint64()),
    pa.field("p99_9_ns", pa.uint64()),
    pa.field("p99_99_ns", pa.uint64()),
    pa.field("max_ns", pa.uint64()),
    pa.field("prepared", pa.string()),
]

#: One row for each test of a suite.
ROWS = pa.schema(
    [
        pa.field("suite", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("cached", pa.bool_(), nullable=False),
        pa.field("spare_percent", pa.uint32()),
        *_TEST,
    ]
)

#: One row for each test of a review in each of its columns: the bare drive, and each cache. The
#: speed is the ratio to the bare drive.
REVIEW = pa.schema(
    [
        pa.field("target", pa.string(), nullable=False),
        pa.field("column", pa.string(), nullable=False),
        pa.field("suite", pa.string(), nullable=False),
        *_TEST,
        pa.field("speed", pa.float64()),
        pa.field("noise", pa.float64()),
        pa.field("change", pa.string()),
    ]
)


def table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema, head: Mapping[str, Any]) -> pa.Table:
    """Returns objects as a table. The head, without its lists of rows, is metadata of the schema.

    Raises:
        KeyError: An object lacks a value that all have.
    """
    rows = list(rows)
    columns = [
        pa.array([row.get(field.name) for row in rows], type=field.type) for field in schema
    ]
    for field, column in zip(schema, columns):
        if not field.nullable and column.null_count:
            raise KeyError(field.name)
    kept = {"overdrive": json.dumps(head, separators=(",", ":"))}
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(kept))


def runs(result: Mapping[str, Any], more: Iterable[pa.Field] = ()) -> pa.Table:
    """Returns the runs of an object ``overdrive.sim/1``, which may have more columns."""
    head = {key: value for key, value in result.items() if key != "runs"}
    return table(result["runs"], pa.schema([*RUNS, *more]), head)


def rows(result: Mapping[str, Any]) -> pa.Table:
    """Returns the rows of an object ``overdrive.bench/1``, with those of its variants."""
    head = {key: value for key, value in result.items() if key not in ("rows", "series", "variants")}
    several: list[Mapping[str, Any]] = [result, *result.get("variants", ())]
    found: list[dict[str, Any]] = []
    for one in several:
        own = {key: one.get(key) for key in ("suite", "target", "cached", "spare_percent")}
        found.extend({**own, **row} for row in one["rows"])
    return table(found, ROWS, head)


def review(result: Mapping[str, Any]) -> pa.Table:
    """Returns the rows of an object ``overdrive.review/1``."""
    head = {key: value for key, value in result.items() if key != "columns"}
    found: list[dict[str, Any]] = []
    for column in result["columns"]:
        own = {"target": result["target"], "column": column["name"]}
        found.extend({**row, **own} for row in column["rows"])
    return table(found, REVIEW, head)


def head_of(of: pa.Table) -> dict[str, Any]:
    """Returns the facts about a table's origin: the result's object without its rows."""
    metadata = of.schema.metadata or {}
    text = metadata.get(b"overdrive")
    head: dict[str, Any] = json.loads(text) if text else {}
    return head
