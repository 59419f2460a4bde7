"""The native part of the package. Use the functions of ``overdrive`` instead."""

from os import PathLike
from typing import final

VERSION: str

def policies() -> list[str]: ...
def formats() -> list[str]: ...
def parse_size(text: str) -> int: ...
def served_policies() -> list[str]: ...
def check_replay(drive: str, state: str) -> None: ...
def replay(
    trace: str | PathLike[str],
    drive: str,
    *,
    format: str | None,
    devices: list[str],
    cache: int | None,
    policy: str,
    seed: int | None,
    state: str,
    depth: int | None,
    dependent: bool,
    speed: float | None,
    idle_us_max: int | None,
    map: str | None,
    prices: str | None,
) -> str: ...
def suites() -> str: ...
def drives() -> str: ...
def simulate(
    trace: str | PathLike[str],
    *,
    format: str | None,
    memory: list[str],
    policies: list[str],
    devices: list[str],
    reads_only: bool,
    shards: int,
    threads: int | None,
    sample: str | None,
    compress: str | None,
    map: str | PathLike[str] | None,
) -> str: ...
def trace_info(
    trace: str | PathLike[str], *, format: str | None, devices: list[str]
) -> str: ...
def bench(
    suite: str,
    drive: str,
    *,
    cache: int | None,
    seed: int | None,
    state: str,
    prepare: str | None,
    scale: float | None,
    only: str | None,
    spare_percent: int,
    span: int | None,
    time_us: int | None,
    era: int | None,
    prices: str | None,
) -> str: ...
@final
class TraceReader:
    def __new__(cls, path: str | PathLike[str], format: str | None) -> TraceReader: ...
    def format(self) -> str: ...
    def next(
        self, rows: int
    ) -> tuple[int, list[tuple[bytes, bytes | None]], list[str], list[str]]: ...
