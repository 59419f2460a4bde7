"""Sweeps: traces x policies x sizes x compression x drives, on this machine or a Dask cluster.

Example:
    >>> from overdrive import sweep
    >>> manifest = sweep.load("sweep.toml")                     # doctest: +SKIP
    >>> summary, table = sweep.Sweep(manifest).run()            # doctest: +SKIP
    >>> table.to_pandas().groupby("policy").miss_ratio.mean()   # doctest: +SKIP

``overdrive sweep`` is the same with a page of comparisons; see docs/SWEEP.md.
"""

from .errors import ManifestError, SweepError
from .manifest import Manifest, load
from .run import Summary, Sweep

__all__ = ["Manifest", "ManifestError", "Summary", "Sweep", "SweepError", "load"]
