"""Manifests: each fault is one sentence with the file, the key and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overdrive.sweep import ManifestError, SweepError, load
from overdrive.sweep.cluster import scheduler_address
from overdrive.sweep.manifest import Manifest
from overdrive.sweep.run import Sweep
from overdrive.sweep.sizes import share_percent, size_bytes
from overdrive.sweep.traces import find

from .support import refused, run_here, write_manifest, write_trace


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"traces": None}, "traces: is missing; write traces = "),
        ({"traces": []}, "traces: is missing"),
        ({"traces": [1]}, "traces[0]: is no table"),
        ({"traces": [{"paht": "x"}]}, "traces[0].paht: there is no such key; did you mean 'path'?"),
        ({"traces": [{"format": "csv"}]}, "traces[0].path: is no path"),
        (
            {"traces": [{"path": "x", "format": "vcsi"}]},
            "traces[0].format: 'vcsi' is no format; did you mean 'vscsi'?",
        ),
        ({"traces": [{"path": "x", "class": 3}]}, "traces[0].class: is no text"),
        (
            {"traces": [{"path": "x", "policies": ["lru"]}]},
            "traces[0].policies: is in a table; write it above the first line in brackets",
        ),
        ({"replay": {"output": "x"}}, "replay.output: is in a table; write it above the first"),
        ({"output": None}, "output: is missing; write output = ..., a folder, or a URL"),
        ({"output": 3}, "output: is no text"),
        ({"outputs": "x"}, "outputs: there is no such key; did you mean 'output'?"),
        ({"policies": ["lru", "lruu"]}, "policies[1]: 'lruu' is no policy; did you mean 'lru'?"),
        ({"policies": "lru"}, "policies: is no list of values; write policies = ["),
        ({"policies": ["lru", "LRU"]}, "policies[1]: 'lru' is in the list twice"),
        ({"sizes": None}, "sizes: is missing"),
        ({"sizes": ["ten"]}, "sizes[0]: 'ten' is no size of 4 KiB or more"),
        ({"sizes": ["1K"]}, "sizes[0]: '1K' is no size of 4 KiB or more"),
        ({"sizes": ["2000%"]}, "sizes[0]: '2000%' is no share"),
        ({"compression": ["0.5"]}, "compression[0]: '0.5' is no ratio"),
        ({"drives": ["samsung"]}, "drives[0]: 'samsung' is no modelled drive"),
        ({"drives": ["none", "toshiba-rc100-240?sede=2"]}, "drives[1]: drive "),
        (
            {"drives": ["toshiba-rc100-240"], "replay": {"state": "new"}},
            "replay.state: state new: ",
        ),
        ({"count": "writes"}, "count: 'writes' is not known; write one of all, reads"),
        ({"memory": "much"}, "memory: 'much' is no size"),
        ({"workers": 0}, "workers: 0 is no number of processes"),
    ],
)
def test_each_fault_is_named(tmp_path: Path, keys: dict[str, Any], part: str) -> None:
    path = write_manifest(tmp_path / "sweep.toml", **keys)
    with pytest.raises(ManifestError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {part}"), message
    assert "\n" not in message


def test_the_command_refuses_with_status_2_and_writes_nothing(tmp_path: Path) -> None:
    write_trace(tmp_path / "traces" / "a.csv", 1)
    path = write_manifest(tmp_path / "sweep.toml", traces=["traces/*.csv", "other/*.csv"])
    message = refused(path)
    assert message.startswith(f"overdrive: {path}: traces[0].path: 'other/*.csv' matches no file;")
    assert not (tmp_path / "results").exists()
    (tmp_path / "sweep.toml").write_text("policies = [")
    assert "sweep.toml: is not TOML: " in refused(path)
    message = refused(tmp_path / "absent.toml")
    assert message.endswith("absent.toml: No such file or directory; name the manifest of a sweep")


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    write_trace(tmp_path / "traces" / "a.csv", 1, requests=10)
    (tmp_path / "file").write_text("")
    path = write_manifest(tmp_path / "sweep.toml", output="file/results")
    place = tmp_path / "file" / "results" / "traces.json"
    assert refused(path).startswith(f"overdrive: {place}: cannot be written: Not a directory; ")


def test_an_output_that_cannot_be_written_is_found_before_traces_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path / "traces" / "a.csv", 1, requests=10)
    (tmp_path / "file").write_text("")
    read: list[str] = []
    monkeypatch.setattr("overdrive.sweep.traces.digest_of", lambda path, _: read.append(path))
    with pytest.raises(SweepError, match="cannot be written"):
        Sweep(load(write_manifest(tmp_path / "sweep.toml", output="file/results"))).run()
    assert not read


def test_the_results_in_a_folder_of_traces_are_no_traces(tmp_path: Path) -> None:
    for name in ("a.csv", "parts/b.csv"):
        write_trace(tmp_path / name, 1, requests=10)
    keys = {"traces": ["**/*.csv"], "policies": ["lru"], "sizes": ["64K"]}
    path = write_manifest(tmp_path / "sweep.toml", output="results", **keys)
    for _ in range(2):
        assert run_here(path).traces == 2
    # Traces and results in one folder: then `parts` is a folder of results.
    path = write_manifest(tmp_path / "sweep.toml", output=".", **{**keys, "traces": ["*.csv"]})
    for _ in range(2):
        assert run_here(path).traces == 1
    # A path without a glob is a trace whatever its name is.
    path = write_manifest(tmp_path / "sweep.toml", output=".", **{**keys, "traces": ["results.csv"]})
    assert [one.name for one in find(load(path))] == ["results.csv"]


def test_traces_are_found_once_in_the_order_of_their_entries(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "deep/c.csv", "odd[1].csv"):
        write_trace(tmp_path / "traces" / name, 1, requests=10)
    path = write_manifest(
        tmp_path / "sweep.toml",
        traces=[
            {"path": "traces/b.csv", "class": "first", "format": "csv"},
            {"path": ["traces/**/*.csv", "traces/odd[1].csv"], "class": "rest"},
        ],
    )
    found = [(one.name, one.workload, one.format) for one in Sweep(load(path)).traces]
    assert found == [
        ("traces/b.csv", "first", "csv"),
        ("traces/a.csv", "rest", None),
        ("traces/deep/c.csv", "rest", None),
        ("traces/odd[1].csv", "rest", None),
    ]


def test_values_have_one_spelling(tmp_path: Path) -> None:
    keys = {"policies": ["LRU", "Opt"], "compression": ["off", 2.50], "memory": "1G"}
    manifest = load(write_manifest(tmp_path / "sweep.toml", **keys))
    assert isinstance(manifest, Manifest)
    assert (manifest.policies, manifest.compression) == (("lru", "opt"), ("off", "2.5"))
    assert (manifest.drives, manifest.memory_bytes) == (("none",), 1 << 30)


def test_sizes_are_those_of_the_command() -> None:
    good = {"4K": 4096, "4KiB": 4096, "4kb": 4000, "1.5M": 3 << 19, "512": 512, "7b": 7, "2T": 2 << 40}
    assert {text: size_bytes(text) for text in good} == good
    assert [size_bytes(text) for text in ("", "K", "-1K", "1X", "1KK", "1e3", "99999999T")] == [None] * 7
    assert [share_percent(text) for text in ("10%", "0.5%", "0%", "10", "1001%")] == [
        10.0, 0.5, None, None, None,
    ]  # fmt: skip


def test_the_address_of_a_scheduler() -> None:
    assert scheduler_address("dask://host:8786") == "tcp://host:8786"
    assert scheduler_address("dask+tls://[::1]:1") == "tls://[::1]:1"
    for bad in ("host:8786", "dask://host", "tcp://host:1", "dask://host:x"):
        with pytest.raises(SweepError, match="write dask://HOST:PORT"):
            scheduler_address(bad)
