"""The program with which the package is compared, and traces."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Runs the program, and returns its JSON object.
Program = Callable[..., Any]


@pytest.fixture(scope="session")
def program_path() -> Path:
    path = os.environ.get("OVERDRIVE_TEST_PROGRAM")
    assert path, "OVERDRIVE_TEST_PROGRAM has the path of the program; use cargo xtask python"
    return Path(path)


@pytest.fixture(scope="session")
def program(program_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    # Results and prices of the tests do not belong to the user's.
    home = tmp_path_factory.mktemp("home")
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "XDG_DATA_HOME": str(home)}

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [program_path, *arguments],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, **own},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


class Requests:
    """Requests of two devices, with reuse and a scan, and their file in the CSV of seven columns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []
        chance = random.Random(7)
        lines = ["op,offset,length,time_ns,took_ns,device,process"]
        for number in range(20_000):
            word = chance.choices(["R", "W", "WF", "F", "A"], [58, 30, 5, 5, 2])[0]
            block = int(chance.paretovariate(0.6)) % 5000 if number % 9 else number
            offset, size = block * 4096, chance.choice([512, 4096, 4096, 12_288])
            if word == "F":
                offset, size = 0, 0
            took = None if number % 11 == 0 else chance.randrange(1000, 900_000)
            device = "sda" if chance.random() < 0.7 else "sdb"
            process = "" if number % 5 == 0 else f"p{number % 3}"
            time = number * 1000
            lines.append(
                f"{word},{offset},{size},{time},{'' if took is None else took},{device},{process}"
            )
            names = {"R": "read", "W": "write", "WF": "write", "F": "flush", "A": "advise"}
            self.rows.append(
                {
                    "time_ns": time,
                    "device": device,
                    "operation": names[word],
                    "offset": offset,
                    "bytes": size,
                    "took_ns": took,
                    "sent_ns": None,
                    "process": process or None,
                    "fua": word == "WF",
                    "marks": 0,
                }
            )
        path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def requests(tmp_path_factory: pytest.TempPathFactory) -> Requests:
    return Requests(tmp_path_factory.mktemp("traces") / "two.csv")


@pytest.fixture(scope="session")
def trace(requests: Requests) -> str:
    return str(requests.path)


@pytest.fixture(scope="session")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small file with very many block accesses: each request has 262,144."""
    path = tmp_path_factory.mktemp("traces") / "endless.csv"
    lines = [f"R,{number % 7 << 30},{1 << 30}\n" for number in range(2000)]
    path.write_text("".join(lines))
    return path
