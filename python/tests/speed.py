"""Compares the speed of overdrive.simulate with that of the program, and prints the ratio.

Usage: speed.py PROGRAM [ROUNDS]. Both simulate the same trace on the same number of threads, in the
order A B B A. The time of the program includes its start; that of the package does not include the
start of Python.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import overdrive

#: The package may take this many times as long as the program.
RATIO_MAX = 1.05
#: Requests of the trace.
REQUESTS = 1_500_000
MEMORY = ["8M", "32M", "128M"]
POLICIES = ["lru", "default", "sieve"]


def write_trace(path: Path) -> None:
    chance = random.Random(1)
    with path.open("w") as file:
        for _ in range(REQUESTS):
            block = int(chance.paretovariate(0.4)) % 200_000
            file.write(f"R,{block * 4096},4096\n")


def of_program(program: str, trace: Path) -> tuple[float, int]:
    start = time.perf_counter()
    done = subprocess.run(
        [program, "sim", "--json", "--trace", trace, "--memory", ",".join(MEMORY), "--policy",
         ",".join(POLICIES)],
        capture_output=True,
        check=True,
    )
    elapsed = time.perf_counter() - start
    return elapsed, sum(run["block_misses"] for run in json.loads(done.stdout)["runs"])


def of_package(trace: Path) -> tuple[float, int]:
    start = time.perf_counter()
    table = overdrive.simulate(trace, memory=MEMORY, policies=POLICIES)
    elapsed = time.perf_counter() - start
    return elapsed, sum(table.column("block_misses").to_pylist())


def main() -> int:
    program, rounds = sys.argv[1], int((sys.argv[2:] or ["5"])[0])
    overdrive.check_version(program)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        write_trace(trace)
        of_program(program, trace), of_package(trace)
        ratios = []
        for _ in range(rounds):
            (a1, misses), (b1, same) = of_program(program, trace), of_package(trace)
            (b2, _), (a2, _) = of_package(trace), of_program(program, trace)
            assert misses == same, f"{misses} and {same} misses"
            ratios.append((b1 + b2) / (a1 + a2))
            print(f"program {a1 + a2:.3f} s, package {b1 + b2:.3f} s, ratio {ratios[-1]:.3f}")
    ratio = statistics.median(ratios)
    print(f"overdrive.simulate takes {ratio:.3f} of the program's time "
          f"(median of {rounds}, {min(ratios):.3f} to {max(ratios):.3f})")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
