"""Sizes and shares in the spelling of the command line."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:(b)|([kmgt])(ib|b)?)?", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)%")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}

PERCENT_MAX = 1000.0


def size_bytes(text: str) -> int | None:
    """Returns the bytes of ``64M``, ``4KiB`` (1024) or ``4KB`` (1000). None: it is no size."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    number, _, letter, rest = found.groups()
    base = 1000 if (rest or "").lower() == "b" else 1024
    value = float(number) * base ** _POWERS.get((letter or "").lower(), 0)
    return int(value) if value < 2**64 else None


def share_percent(text: str) -> float | None:
    """Returns the number of ``12.5%``. None: it is no share of up to 1000 %."""
    found = _SHARE.fullmatch(text.strip())
    value = float(found.group(1)) if found else 0.0
    return value if 0.0 < value <= PERCENT_MAX else None


def words(value: float) -> str:
    """Returns a number of bytes in a suitable unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
