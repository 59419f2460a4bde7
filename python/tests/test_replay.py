"""Replays on modelled drives."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Program

import overdrive

DRIVE = "samsung-840-evo-250"


@pytest.fixture(scope="module")
def short(trace: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first requests of the trace: few, because the engine is not optimized in tests."""
    path = tmp_path_factory.mktemp("short") / "short.csv"
    lines = Path(trace).read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:1500]))
    return str(path)


def test_results_are_those_of_the_program(program: Program, short: str) -> None:
    found = overdrive.replay(short, DRIVE, seed=3, state="fresh", map="wrap")
    assert found == program(
        "trace", "replay", short, f"model:{DRIVE}?seed=3", "--state", "fresh", "--map", "wrap",
        "--json",
    )
    assert found["requests"] > 1000 and found["all"]["p99_ns"] > 0


def test_a_simulation_with_a_drive_has_the_latencies_of_its_replays(
    program: Program, short: str, tmp_path: Path
) -> None:
    table = overdrive.simulate(
        short, memory="1M", policies=["fifo", "lru", "opt"], drive=DRIVE, drive_map="wrap"
    )
    fifo, lru, optimum = table.to_pylist()
    assert (fifo["drive"], optimum["drive"]) == (DRIVE, None)
    assert optimum["mean_ns"] is None, "no cache is served with the optimum"
    reviews = Path(__file__).parents[2] / "docs/reviews/prices.json"
    expected = program(
        "trace", "replay", short, f"model:{DRIVE}", "--map", "wrap", "--cache", "1M", "--policy",
        "lru", "--prices", str(reviews), "--json",
    )
    for field in ("mean_ns", "p50_ns", "p99_ns", "p99_99_ns", "max_ns"):
        assert lru[field] == expected["all"][field]
    assert lru["elapsed_ns"] == expected["elapsed_ns"]
    bare = overdrive.replay(short, DRIVE, map="wrap")
    assert lru["mean_ns"] != bare["all"]["mean_ns"]
    assert lru["mean_ns"] != fifo["mean_ns"], "the policies differ"


def test_wrong_parameters_are_named(short: str, tmp_path: Path) -> None:
    timeless = tmp_path / "timeless.csv"
    timeless.write_text("R,0,4096\nR,4096,4096\n")
    far = tmp_path / "far.csv"
    far.write_text(f"R,{1 << 50},4096\n")
    for trace, parameters, says in [
        (short, {"drive": "absent"}, "drive model:absent: "),
        (short, {"map": "wrapp"}, "map wrapp: there is no such mapping; did you mean 'wrap'?"),
        (short, {"cache": "8M", "policy": "opt"}, "policy opt: a cache cannot be served with it"),
        (short, {"depth": 0}, "depth 0: write a number"),
        (short, {"depth": 1, "dependent": True}, "depth and dependent exclude each other"),
        (short, {"depth": 1, "speed": 2.0}, "depth and dependent are without times"),
        (short, {"cache": "1K"}, "cache 1 KiB: a cache needs at least 1 MiB"),
        (timeless, {}, f"{timeless}: has no times; use 'depth'"),
        (far, {"depth": 1}, f"{far}: needs 1024.0 TiB, but model:{DRIVE} has only"),
    ]:
        with pytest.raises(overdrive.UsageError) as error:
            overdrive.replay(trace, parameters.pop("drive", DRIVE), **parameters)  # type: ignore
        assert str(error.value).startswith(says), f"{parameters}: {error.value}"


def test_served_policies_are_some_of_all() -> None:
    served = overdrive.policies(served=True)
    assert set(served) < set(overdrive.policies())
    assert {"default", "adaptive", "lru"} <= set(served) and "opt" not in served
