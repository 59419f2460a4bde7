"""Saved results of the program."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from . import _tables
from ._parameters import Path, path_text
from .errors import MalformedError, NotFoundError, PermissionDeniedError, ReadError

__all__ = ["head", "read_result"]


def read_result(path: Path) -> pa.Table:
    """Reads a result that the program has printed with ``--json`` into a table.

    ``overdrive sim`` has a row for each policy and size, as :func:`simulate`. ``overdrive bench``
    has a row for each test, as :meth:`BenchResult.table`. ``overdrive review`` has the rows of all
    its suites, with ``column`` and ``target``. ``.to_pandas()`` makes a data frame of a table, and
    ``polars.from_arrow(table)`` one of polars.

    Raises:
        NotFoundError: The file does not exist.
        PermissionDeniedError: The file may not be read.
        ReadError: The file cannot be read.
        MalformedError: The file is no result, or is damaged; the message has the line or the key.
    """
    path = path_text("path", path)
    result = _load(path)
    schema = result.get("schema")
    kinds = {"overdrive.sim/1": _tables.runs, "overdrive.bench/1": _tables.rows,
             "overdrive.review/1": _tables.review}
    if not isinstance(schema, str) or schema not in kinds:
        known = ", ".join(kinds)
        raise MalformedError(f"{path}: 'schema' is {schema!r}; this package reads {known}")
    try:
        return kinds[schema](result)
    except KeyError as error:
        raise MalformedError(f"{path}: the key {error} is missing") from None
    except (pa.ArrowException, AttributeError, TypeError) as error:
        raise MalformedError(f"{path}: is no {schema}: {error}") from None


def _load(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except FileNotFoundError:
        raise NotFoundError(f"{path}: there is no such file") from None
    except PermissionError as error:
        raise PermissionDeniedError(f"{path}: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise MalformedError(
            f"{path}: line {error.lineno}, column {error.colno}: is no JSON: {error.msg}"
        ) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"{path}: is no JSON: {error}") from None
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}") from None
    if not isinstance(result, dict):
        raise MalformedError(f"{path}: is no JSON object")
    return result


def head(table: pa.Table) -> dict[str, Any]:
    """Returns the facts about a table's origin: the result's object without its rows.

    For a simulation these are ``format``, ``complete``, ``count``, ``footprint_blocks`` and others,
    for a suite ``drive``, ``cache``, ``prices``, ``method`` and others. Tables that are not results,
    such as those of traces, have none: the object is empty.
    """
    return _tables.head_of(table)
