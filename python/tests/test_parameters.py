"""Wrong parameters: each exception is a UsageError that begins with the parameter's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import overdrive

DRIVE = "samsung-840-evo-250"

WRONG: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    ("policies", overdrive.simulate, {"policies": None}),
    ("policies", overdrive.simulate, {"policies": 3}),
    ("format", overdrive.simulate, {"format": 3}),
    ("shards", overdrive.simulate, {"shards": "2"}),
    ("threads", overdrive.simulate, {"threads": 1.5}),
    ("threads", overdrive.simulate, {"threads": -1}),
    ("drive", overdrive.simulate, {"drive": 3}),
    ("drive_depth", overdrive.simulate, {"drive": DRIVE, "drive_depth": "4"}),
    ("policy", overdrive.replay, {"policy": 3}),
    ("depth", overdrive.replay, {"depth": "4"}),
    ("seed", overdrive.replay, {"seed": -1}),
    ("seed", overdrive.replay, {"seed": 1 << 64}),
    ("speed", overdrive.replay, {"speed": "2"}),
    ("idle_max", overdrive.replay, {"idle_max": "1s"}),
    ("map", overdrive.replay, {"map": 1}),
    ("seed", overdrive.bench, {"seed": "a"}),
    ("time", overdrive.bench, {"time": "5s"}),
    ("scale", overdrive.bench, {"scale": "2"}),
    ("spare_percent", overdrive.bench, {"spare_percent": -1}),
    ("spare_percent", overdrive.bench, {"spare_percent": 2.5}),
    ("era", overdrive.bench, {"era": -1}),
    ("state", overdrive.bench, {"state": None}),
]


@pytest.mark.parametrize("name, function, wrong", WRONG)
def test_the_message_begins_with_the_parameter(
    name: str, function: Callable[..., Any], wrong: dict[str, Any], trace: str
) -> None:
    positional = {
        "simulate": ((trace,), {"memory": "1M"}),
        "replay": ((trace, DRIVE), {}),
        "bench": (("qd1", DRIVE), {}),
    }
    arguments, named = positional[function.__name__]
    with pytest.raises(overdrive.UsageError, match=rf"^{name} "):
        function(*arguments, **{**named, **wrong})


def test_a_trace_that_is_no_path_is_refused() -> None:
    for value in ("", None, 3, b"a.csv"):
        for call in (overdrive.open_trace, overdrive.read_result):
            function: Callable[[Any], Any] = call
            with pytest.raises(overdrive.UsageError, match="^path "):
                function(value)


def test_a_misspelt_policy_of_a_replay_has_a_suggestion(trace: str) -> None:
    with pytest.raises(overdrive.UsageError, match="no such policy; did you mean 'lru'"):
        overdrive.replay(trace, DRIVE, policy="lur")
