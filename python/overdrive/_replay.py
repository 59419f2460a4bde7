"""Replays of traces on modelled drives."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any, Literal

from . import _native
from ._parameters import Path, Size, names, number, path_text, size_bytes, text, whole
from .errors import UsageError

__all__ = ["replay"]


def replay(
    trace: Path,
    drive: str,
    *,
    cache: Size | None = None,
    policy: str = "default",
    format: str | None = None,
    devices: str | Iterable[str] = (),
    seed: int | None = None,
    state: str = "filled",
    depth: int | None = None,
    dependent: bool = False,
    speed: float | None = None,
    idle_max: float | None = None,
    map: Literal["wrap", "scale", "clip"] | None = None,
    prices: Path | None = None,
) -> dict[str, Any]:
    """Replays the requests of a trace on a modelled drive, in virtual time.

    Requests start at their recorded times, unless ``depth`` or ``dependent`` chooses others. The
    same arguments give the same result on every machine, unless ``prices`` names this machine's.
    Other threads of Python run meanwhile, and Ctrl-C ends the replay.

    Args:
        trace: The file. The whole trace is in memory, 56 bytes for each request.
        drive: A name of :func:`drives`, or a target, as for :func:`bench`.
        cache: Put a cache with this much memory in front: bytes, or text like ``"1G"``.
        policy: The policy of the cache, of ``policies(served=True)``.
        format: The trace's format. None: detected from its content.
        devices: Only requests of these devices. Empty: all.
        seed: All choices follow from it. None: 1, or that of the target.
        state: State of the drive before: a name or steps, as for ``overdrive bench --state``.
        depth: Without times: this number of requests in flight, from 1 to 2048.
        dependent: Without times: a request waits for those that had been answered before it.
        speed: Run this number of times faster than recorded.
        idle_max: Shorten each idle time to at most this number of seconds.
        map: Mapping to a drive of another size: addresses modulo its size, in proportion, or
            without those beyond its end. Required if the trace does not fit.
        prices: Costs of the cache's work: a file, ``"machine"`` for those of this machine, or
            ``"measure"`` to measure them again. None: those of the reviews in the manual.

    Returns:
        The object ``overdrive.trace-replay/1``: ``requests``, ``elapsed_ns``, ``mb_per_second``,
        and for ``all``, ``reads``, ``writes``, ``flushes`` and ``trims`` an object with
        ``mean_ns``, ``p50_ns``, ``p99_ns``, ``p99_99_ns``, ``max_ns``. docs/TRACES.md has the rest.

    Raises:
        UsageError: A parameter is wrong, the trace has no times, or does not fit on the drive.
        MalformedError: The file is not a trace, or is damaged.
        DeviceError: The drive failed.
        KeyboardInterrupt: Ctrl-C.
    """
    check_depth(depth)
    _check_policy(policy)
    if speed is not None and not 1e-6 <= number("speed", speed) <= 1e6:
        raise UsageError(f"speed {speed}: write a number from 0.000001 to 1000000")
    if idle_max is not None and not 0 <= number("idle_max", idle_max) < 1e12:
        raise UsageError(f"idle_max {idle_max}: write seconds, 0 or more")
    if (depth is not None or dependent) and (speed is not None or idle_max is not None):
        raise UsageError("depth and dependent are without times: omit speed and idle_max")
    if depth is not None and dependent:
        raise UsageError("depth and dependent exclude each other: omit one")
    found = _native.replay(
        path_text("trace", trace),
        text("drive", drive),
        format=None if format is None else text("format", format),
        devices=names("devices", devices),
        cache=size_bytes("cache", cache),
        policy=policy,
        seed=check_seed(seed),
        state=text("state", state),
        depth=depth,
        dependent=dependent,
        speed=speed,
        idle_us_max=None if idle_max is None else round(idle_max * 1e6),
        map=None if map is None else text("map", map),
        prices=None if prices is None else path_text("prices", prices),
    )
    result: dict[str, Any] = json.loads(found)
    return result


def check_depth(depth: int | None) -> None:
    """Refuses numbers of requests in flight that no replay has."""
    if depth is not None:
        whole("depth", depth, 1, 2048)


def check_seed(seed: int | None) -> int | None:
    """Returns a seed, which has 64 bits."""
    return None if seed is None else whole("seed", seed, 0, (1 << 64) - 1)


def _check_policy(policy: str) -> None:
    """Refuses names of no policy. The native part refuses those that are only simulated."""
    known = _native.policies()
    if text("policy", policy) not in known:
        near = difflib.get_close_matches(policy, known, 1)
        hint = f"did you mean '{near[0]}'?" if near else "choose one of "
        hint += "" if near else ", ".join(_native.served_policies())
        raise UsageError(f"policy {policy}: there is no such policy; {hint}")
