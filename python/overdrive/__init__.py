"""Studies of caches and drives: traces, simulations, and suites on modelled drives.

::

    import overdrive

    table = overdrive.simulate("vm.vscsi.xz", memory=["1%", "10%"], policies=["lru", "opt"])
    trace = overdrive.open_trace("vm.vscsi.xz").to_arrow()
    result = overdrive.bench("qd1", "samsung-840-evo-250", cache="1G")

Tables are those of pyarrow; ``.to_pandas()`` and ``polars.from_arrow`` convert them. All exceptions
are subclasses of :class:`overdrive.Error`. docs/PYTHON.md has more.
"""

from __future__ import annotations

from . import errors, plot
from ._bench import BenchResult, bench, drives, suites
from ._native import VERSION as __version__
from ._replay import replay
from ._results import head, read_result
from ._simulate import policies, simulate
from ._trace import Trace, formats, open_trace
from ._version import binary_version, check_version
from .errors import (
    DeviceError,
    Error,
    InternalError,
    MalformedError,
    NotFoundError,
    PermissionDeniedError,
    ReadError,
    UsageError,
    VersionError,
)

__all__ = [
    "BenchResult",
    "DeviceError",
    "Error",
    "InternalError",
    "MalformedError",
    "NotFoundError",
    "PermissionDeniedError",
    "ReadError",
    "Trace",
    "UsageError",
    "VersionError",
    "__version__",
    "bench",
    "binary_version",
    "check_version",
    "drives",
    "errors",
    "formats",
    "head",
    "open_trace",
    "plot",
    "policies",
    "read_result",
    "replay",
    "simulate",
    "suites",
]
