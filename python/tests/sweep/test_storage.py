"""Results and traces in object storage: moto's S3 server."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overdrive.sweep import load
from overdrive.sweep.jobs import plan, run_job
from overdrive.sweep.progress import Progress
from overdrive.sweep.storage import open_store
from overdrive.sweep.traces import find, identify

from .support import command, outputs, refused, rows, sweep, until, write_manifest, write_trace

pytestmark = pytest.mark.slow
pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A bucket, as a file system, and the environment by which fsspec finds it."""
    import s3fs

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    url = f"http://{host}:{port}"
    before = dict(os.environ)
    os.environ.update(
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",
        AWS_DEFAULT_REGION="us-east-1",
        AWS_ENDPOINT_URL=url,
        FSSPEC_S3_ENDPOINT_URL=url,
    )
    try:
        system = s3fs.S3FileSystem(endpoint_url=url, key="test", secret="test")
        system.mkdir("bucket")
        yield system
    finally:
        os.environ.clear()
        os.environ.update(before)
        running.stop()


def read(bucket: Any, folder: str, to: Path) -> Path:
    """Copies the files of results to a folder."""
    bucket.invalidate_cache()
    to.mkdir()
    for name in ("results.parquet", "results.csv"):
        (to / name).write_bytes(bucket.cat_file(f"{folder}/{name}"))
    return to


def test_results_in_a_bucket_are_the_bytes_of_a_folder(bucket: Any, tmp_path: Path) -> None:
    for number in range(6):
        write_trace(tmp_path / "traces" / f"{number}.csv", number)
    sweep(write_manifest(tmp_path / "local.toml", output="local"))
    path = write_manifest(tmp_path / "sweep.toml", output="s3://bucket/a/b")
    running = subprocess.Popen(command(str(path), "--workers", "1"), stderr=subprocess.PIPE)

    def has_some() -> bool:
        bucket.invalidate_cache()
        return len(bucket.glob("bucket/a/b/parts/*.parquet")) >= 3

    until(has_some)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    summary = sweep(path, "--workers", "2")
    assert summary["resumed"] >= 3 and summary["ran"] + summary["resumed"] == 18
    assert outputs(read(bucket, "bucket/a/b", tmp_path / "read")) == outputs(tmp_path / "local")
    assert sweep(path)["ran"] == 0


def test_traces_in_a_bucket_have_the_figures_of_files(bucket: Any, tmp_path: Path) -> None:
    for number in range(2):
        path = write_trace(tmp_path / "traces" / f"{number}.csv", number)
        bucket.put_file(str(path), f"bucket/traces/{number}.csv")
    bucket.pipe_file("bucket/traces/bad.csv", b"R,0,4096\nnothing\n")
    sweep(write_manifest(tmp_path / "local.toml", output="local"))
    keys = {"traces": ["s3://bucket/traces/*.csv"], "output": "remote"}
    sweep(write_manifest(tmp_path / "sweep.toml", **keys), status=1)
    remote, local = rows(tmp_path / "remote"), rows(tmp_path / "local")
    bad = [row for row in remote if row["status"] == "error"]
    assert [row["trace"] for row in bad] == ["s3://bucket/traces/bad.csv"] * 9
    assert all(row["error"].startswith("s3://bucket/traces/bad.csv: ") for row in bad)
    own = ("trace", "identity", "job")
    for row in remote + local:
        for key in own:
            del row[key]
    assert [row for row in remote if row["status"] == "ok"] == local
    path = write_manifest(tmp_path / "sweep.toml", traces=["s3://bucket/none/*"])
    assert "traces[0].path: 's3://bucket/none/*' matches no file" in refused(path)


def test_folders_are_no_traces_and_an_object_that_changes_has_no_figures(
    bucket: Any, tmp_path: Path
) -> None:
    text = write_trace(tmp_path / "0.csv", 0).read_bytes()
    bucket.pipe_file("bucket/some/0.csv", text)
    bucket.pipe_file("bucket/some/deep/1.csv", text)
    manifest = load(
        write_manifest(tmp_path / "sweep.toml", traces=["s3://bucket/some/*"], policies=["lru"])
    )
    (found,) = find(manifest)
    assert (found.name, found.bytes) == ("s3://bucket/some/0.csv", len(text))
    progress = Progress(io.StringIO())
    progress.start("reading traces", 1, 1)
    store = open_store(str(tmp_path / "jobs"), "")
    ((_, job),) = plan(manifest, identify([found], store, 1, progress))
    progress.end()
    bucket.pipe_file("bucket/some/0.csv", text.replace(b"R,", b"W,", 1))
    result = run_job(job)
    assert not result.lasting
    assert "{trace}: has other contents than at the start" in result.rows[0]["error"]
    bucket.pipe_file("bucket/some/0.csv", text)
    assert all(row["status"] == "ok" for row in run_job(job).rows)


def test_a_store_that_does_not_answer_is_named(bucket: Any, tmp_path: Path) -> None:
    write_trace(tmp_path / "traces" / "0.csv", 0)
    path = write_manifest(tmp_path / "sweep.toml", output="s3://no-such-bucket/results")
    message = refused(path)
    assert message.startswith("overdrive: s3://no-such-bucket/results/"), message
    assert "; mend this, or give the manifest another output" in message
    path = write_manifest(tmp_path / "sweep.toml", traces=["ftpx://host/*"])
    assert "ftpx://host/*: " in refused(path)
