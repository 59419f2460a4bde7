"""Parameters that several functions have."""

from __future__ import annotations

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
    found = list(value)
    for name in found:
        if not isinstance(name, str):
            raise UsageError(f"{parameter} {name!r}: is no text; write a name")
    return found


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
