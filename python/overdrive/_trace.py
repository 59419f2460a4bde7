"""Traces as tables of Arrow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, final

import pyarrow as pa

from . import _native
from ._parameters import Path, names, path_text, text, whole

__all__ = ["Trace", "formats", "open_trace"]

#: Operations, in the order of the native part. ``other``: the format only shows that a request is
#: neither a read nor a write.
OPERATIONS = ["read", "write", "flush", "discard", "zero", "advise", "other"]

#: Requests in a batch.
BATCH_ROWS = 65_536

_NAME = pa.dictionary(pa.int32(), pa.string())

#: The columns of a trace. Times in nanoseconds since some start, addresses and lengths in bytes.
SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.uint64(), nullable=False),
        pa.field("device", _NAME, nullable=False),
        pa.field("operation", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("offset", pa.uint64(), nullable=False),
        pa.field("bytes", pa.uint64(), nullable=False),
        pa.field("took_ns", pa.uint64()),
        pa.field("sent_ns", pa.uint64()),
        pa.field("process", _NAME),
        pa.field("fua", pa.bool_(), nullable=False),
        pa.field("marks", pa.uint32(), nullable=False),
    ]
)


def formats() -> list[str]:
    """Returns the names of all formats of traces."""
    return _native.formats()


class _Names:
    """Names by their index. The array is made again only after new names."""

    def __init__(self) -> None:
        self.array = pa.array([], pa.string())

    def update(self, found: list[str]) -> pa.Array:
        if len(found) != len(self.array):
            self.array = pa.array(found, pa.string())
        return self.array


def _column(type: pa.DataType, rows: int, buffers: tuple[bytes, bytes | None]) -> pa.Array:
    values, known = buffers
    parts = [None if known is None else pa.py_buffer(known), pa.py_buffer(values)]
    return pa.Array.from_buffers(type, rows, parts)


def _read(path: str, format: str | None, rows: int) -> Iterator[pa.RecordBatch]:
    reader = _native.TraceReader(path, format)
    operations = pa.array(OPERATIONS, pa.string())
    devices, processes = _Names(), _Names()
    while True:
        count, columns, device_names, process_names = reader.next(rows)
        if count == 0:
            return
        arrays = []
        for field, buffers in zip(SCHEMA, columns):
            is_name = pa.types.is_dictionary(field.type)
            type = field.type.index_type if is_name else field.type
            array = _column(type, count, buffers)
            if field.name == "operation":
                array = pa.DictionaryArray.from_arrays(array, operations)
            elif field.name == "device":
                array = pa.DictionaryArray.from_arrays(array, devices.update(device_names))
            elif field.name == "process":
                array = pa.DictionaryArray.from_arrays(array, processes.update(process_names))
            arrays.append(array)
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@final
class Trace:
    """A recorded trace in a file. It has no open file; each method reads from the beginning."""

    def __init__(self, path: Path, format: str | None = None) -> None:
        self._path = path_text("path", path)
        self._asked = None if format is None else text("format", format)
        self._format = _native.TraceReader(self._path, format).format()

    def __repr__(self) -> str:
        return f"overdrive.open_trace({self._path!r}, format={self._format!r})"

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def format(self) -> str:
        """The name of the format, as it was given or detected."""
        return self._format

    def info(self, *, devices: str | Iterable[str] = ()) -> dict[str, Any]:
        """Reads the trace, and returns its properties.

        They are those of ``overdrive trace info --json``: requests, bytes, sizes, depth, busy
        time, reuse, devices and processes. docs/TRACES.md describes each.

        Args:
            devices: Only requests of these devices, by their names in the trace. Empty: all.

        Raises:
            UsageError: There is no such device.
            MalformedError: The file is damaged, or has no request.
        """
        properties = _native.trace_info(
            self._path, format=self._asked, devices=names("devices", devices)
        )
        found: dict[str, Any] = json.loads(properties)
        return found

    def batches(self, rows: int = BATCH_ROWS) -> pa.RecordBatchReader:
        """Returns a reader of the requests in the order of the file.

        Only one batch is in memory at a time. Errors in the file are raised when its batch is
        read. The reader has the Arrow C stream interface, so that polars, DuckDB and others
        accept it.

        Args:
            rows: Requests in a batch.

        Raises:
            UsageError: The number of rows is not above 0.
        """
        reader = _read(self._path, self._asked, whole("rows", rows, 1, (1 << 63) - 1))
        return pa.RecordBatchReader.from_batches(SCHEMA, reader)

    def to_arrow(self) -> pa.Table:
        """Reads all requests into a table, in the order of the file.

        The columns are ``time_ns`` (since some start), ``device``, ``operation`` (``read``,
        ``write``, ``flush``, ``discard``, ``zero``, ``advise``, ``other``), ``offset`` and
        ``bytes``, ``took_ns`` (until the answer) and ``sent_ns`` (until it was sent to the
        device), ``process``, ``fua``, and ``marks`` (bits: 1 a process waits, 2 metadata of a file
        system, 4 readahead, 8 flushes the device before). Facts that the format lacks are null,
        and a time that it lacks is 0.

        Raises:
            MalformedError: The file is damaged; the message has the line or byte.
            KeyboardInterrupt: Ctrl-C.
        """
        batches = list(_read(self._path, self._asked, BATCH_ROWS))
        return pa.Table.from_batches(batches, SCHEMA).unify_dictionaries()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns the requests by the Arrow PyCapsule interface."""
        capsule: object = self.batches().__arrow_c_stream__(requested_schema)
        return capsule


def open_trace(path: Path, format: str | None = None) -> Trace:
    """Opens a recorded trace.

    Args:
        path: The file, which may be compressed by gzip, xz or zstd.
        format: One of :func:`formats`. None: detected from its content.

    Raises:
        UsageError: There is no such format, or the content does not show which one it is.
        NotFoundError: The file does not exist.
        PermissionDeniedError: The file may not be read.
        MalformedError: The file is no trace.
    """
    return Trace(path, format)
