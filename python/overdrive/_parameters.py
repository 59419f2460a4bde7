"""Parameters that several functions have."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from typing import Union

from . import _native
from .errors import UsageError

#: A path of a file.
Path = Union[str, "os.PathLike[str]"]
#: Bytes as a number, or as text with a unit: ``"64M"`` and ``"64MiB"`` are 67,108,864.
Size = Union[int, str]


def names(parameter: str, value: str | Iterable[str]) -> list[str]:
    """Returns the names of a parameter: one, or several."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise UsageError(f"{parameter} {value!r}: is no text; write a name, or a list of names")
    return [text(parameter, one) for one in value]


def text(parameter: str, value: object) -> str:
    """Returns a parameter that is a text."""
    if not isinstance(value, str):
        raise UsageError(f"{parameter} {value!r}: is no text; write a name")
    return value


def path_text(parameter: str, value: Path) -> str:
    """Returns a path as text."""
    try:
        found = os.fspath(value)
    except TypeError:
        found = None
    if not isinstance(found, str):
        raise UsageError(f"{parameter} {value!r}: is no path; write text, or a pathlib.Path")
    if not found:
        raise UsageError(f"{parameter} {value!r}: is empty; write the path of a file")
    return found


def whole(parameter: str, value: object, least: int, most: int) -> int:
    """Returns a whole number of a range. Integers of NumPy are accepted."""
    try:
        found = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{parameter} {value!r}: is no whole number; write it without quotes "
                         "and without a point") from None
    if not least <= found <= most:
        raise UsageError(f"{parameter} {found}: write a number from {least} to {most}")
    return found


def number(parameter: str, value: object) -> float:
    """Returns a number."""
    if isinstance(value, str):
        raise UsageError(f"{parameter} {value!r}: is text; write a number without quotes")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{parameter} {value!r}: is no number") from None


def size_text(parameter: str, value: Size) -> str:
    """Returns a size as text."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise UsageError(f"{parameter} {value!r}: is no size; write bytes, or text like '1G'")
    if isinstance(value, int) and value < 0:
        raise UsageError(f"{parameter} {value}: is negative; write a number of bytes")
    return str(value)


def size_texts(parameter: str, value: Size | Sequence[Size]) -> list[str]:
    """Returns the sizes of a parameter as text: one, or several."""
    several = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if not several:
        raise UsageError(f"{parameter}: is empty; give at least one size")
    return [size_text(parameter, one) for one in several]


def size_bytes(parameter: str, value: Size | None) -> int | None:
    """Returns a size in bytes."""
    if value is None:
        return None
    text = size_text(parameter, value)
    try:
        return _native.parse_size(text)
    except UsageError as error:
        raise UsageError(f"{parameter}: {error}") from None
