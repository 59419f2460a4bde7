"""Sweeps on Dask, with scheduler and workers in processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import overdrive

from .support import (
    Dask,
    command,
    dask,
    messages,
    outputs,
    parts,
    refused,
    rows,
    sweep,
    until,
    write_manifest,
    write_trace,
)

pytestmark = pytest.mark.slow
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    with dask(tmp_path_factory.mktemp("dask")) as found:
        yield found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with traces, and the results of one local worker in ``local``."""
    home = tmp_path_factory.mktemp("home")
    for number in range(12):
        write_trace(home / "traces" / f"{number}.csv", number, requests=20_000, blocks=20_000)
    # A worker marks the rows of a corrupt trace as a local one does.
    (home / "traces" / "bad.csv").write_text("R,0,4096\nnothing\n")
    sweep(write_manifest(home / "local.toml", output="local"), "--workers", "1", status=1)
    return home


def test_workers_are_required_and_checked(cluster: Dask, home: Path, tmp_path: Path) -> None:
    path = write_manifest(home / "checked.toml", output="checked")
    message = refused(path, "--on", "dask://127.0.0.1:1")
    assert message.startswith("overdrive: --on dask://127.0.0.1:1: no scheduler answers"), message
    assert "the cluster has no workers" in refused(path, "--on", cluster.url)
    # A worker that has another version of the package.
    other = tmp_path / "overdrive"
    other.mkdir()
    (other / "__init__.py").write_text("__version__ = '0.0.1'\n")
    worker = cluster.worker(path=[tmp_path])
    until(lambda: cluster.count() == 1)
    message = refused(path, "--on", cluster.url)
    assert f"has version 0.0.1 of overdrive, and the sweep has {overdrive.__version__};" in message
    cluster.end(worker)
    until(lambda: cluster.count() == 0)
    # One that declares less memory than a job needs.
    worker = cluster.worker("--resources", "memory=1000000")
    until(lambda: cluster.count() == 1)
    write_manifest(path, output="checked", memory="1G")
    message = refused(path, "--on", cluster.url)
    assert "a job needs 1 GiB of memory, and the workers declare at most 976.6 KiB;" in message
    write_manifest(path, output="checked", memory="900K", policies=["lru"])
    assert sweep(path, "--on", cluster.url, status=1)["ran"] == 13
    cluster.end(worker)
    until(lambda: cluster.count() == 0)
    assert not any(home.glob("overdrive-*")), "workers use their own directories"


def test_one_worker_two_and_a_killed_one_write_the_bytes_of_a_local_one(
    cluster: Dask, home: Path
) -> None:
    first = cluster.worker()
    until(lambda: cluster.count() == 1)
    path = write_manifest(home / "one.toml", output="one")
    summary = sweep(path, "--on", cluster.url, status=1)
    assert (summary["workers"], summary["ran"]) == (1, 39)
    assert outputs(home / "one") == outputs(home / "local")
    cluster.worker()
    until(lambda: cluster.count() == 2)
    path = write_manifest(home / "killed.toml", output="killed")
    running = subprocess.Popen(command(str(path), "--on", cluster.url), stderr=subprocess.PIPE)
    until(lambda: len(parts(home / "killed")) >= 3)
    assert len(parts(home / "killed")) < 35, "too late to be in the middle"
    cluster.end(first)
    assert running.wait(120) == 1
    assert cluster.count() == 1
    assert outputs(home / "killed") == outputs(home / "local")
    path = write_manifest(home / "two.toml", output="two")
    cluster.worker()
    until(lambda: cluster.count() == 2)
    assert sweep(path, "--on", cluster.url, status=1)["workers"] == 2
    assert outputs(home / "two") == outputs(home / "local")
    assert os.getcwd() != str(home)


def test_jobs_of_a_batch_that_dask_gives_up_are_tried_alone(home: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    for number in range(16):
        write_trace(small / "traces" / f"{number}.csv", number, requests=4000, blocks=4000)
    policies = ["default", "lru", "sieve", "fifo", "clock", "2q", "arc", "lirs"]
    path = write_manifest(small / "local.toml", output="local", policies=policies)
    sweep(path, "--workers", "1")
    # The first death of a worker is the end of its tasks.
    variable = "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES"
    with dask(tmp_path / "dask", **{variable: "0"}) as cluster:
        first = cluster.worker()
        until(lambda: cluster.count() == 1)
        path = write_manifest(small / "killed.toml", output="killed", policies=policies)
        words = command(str(path), "--on", cluster.url, "--json")
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: len(parts(small / "killed")) >= 16)
        assert len(parts(small / "killed")) < 110, "too late to be in the middle"
        cluster.end(first)
        assert running.stderr is not None
        lost = next(line for line in running.stderr if line.startswith("overdrive: "))
        start = f"start some by `dask worker tcp://{cluster.url.partition('//')[2]}`"
        waits = f"the last worker is lost; the sweep waits for another; {start}"
        assert lost == f"overdrive: --on {cluster.url}: {waits}\n"
        cluster.worker()
        out, errors = running.communicate(timeout=240)
        assert (running.returncode, messages(errors)) == (0, []), (out, errors)
        assert outputs(small / "killed") == outputs(small / "local")


def test_the_loss_of_the_scheduler_ends_the_sweep_with_the_results_so_far(
    home: Path, tmp_path: Path
) -> None:
    with dask(tmp_path / "dask") as cluster:
        cluster.worker()
        until(lambda: cluster.count() == 1)
        path = write_manifest(home / "lost.toml", output="lost")
        words = command(str(path), "--on", cluster.url, "--json")
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: len(parts(home / "lost")) >= 3)
        cluster.end(cluster.processes[0])
        out, errors = running.communicate(timeout=240)
        assert running.returncode == 1, (out, errors)
        assert '"complete": false' in out and "run the same command again to go on" in errors
    assert 0 < len(rows(home / "lost")) < len(rows(home / "local"))
    assert sweep(path, "--workers", "1", status=1)["resumed"] >= 3
    assert outputs(home / "lost") == outputs(home / "local")


def test_ctrl_c_ends_the_sweep_and_leaves_the_workers_usable(home: Path, tmp_path: Path) -> None:
    with dask(tmp_path / "dask") as cluster:
        cluster.worker()
        until(lambda: cluster.count() == 1)
        path = write_manifest(home / "ended.toml", output="ended")
        words = command(str(path), "--on", cluster.url, "--json")
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: len(parts(home / "ended")) >= 3)
        running.send_signal(signal.SIGINT)
        out, errors = running.communicate(timeout=60)
        assert running.returncode == 1 and '"stopped": "interrupted"' in out, (out, errors)
        assert all(line.startswith("overdrive: ") for line in messages(errors)), errors
        assert 0 < len(rows(home / "ended")) < len(rows(home / "local"))
        assert sweep(path, "--on", cluster.url, status=1)["resumed"] >= 3
        assert outputs(home / "ended") == outputs(home / "local")


def certificates(folder: Path) -> dict[str, str]:
    """Makes a certificate authority and a certificate. Returns Dask's variables for them."""
    folder.mkdir()

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj")
    openssl(*new, "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    own = ("-keyout", "key.pem", "-out", "cert.pem")
    openssl(*new, "/CN=cluster", "-CA", "ca.pem", "-CAkey", "ca-key.pem", *own)
    variables = {"CA_FILE": "ca.pem"}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        variables |= {f"{role}__CERT": "cert.pem", f"{role}__KEY": "key.pem"}
    return {
        f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(folder / file)
        for name, file in variables.items()
    }


@pytest.mark.skipif(shutil.which("openssl") is None, reason="requires openssl")
def test_connections_are_encrypted_with_the_certificates_of_dask(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed.security import Security

    variables = certificates(tmp_path / "certificates")
    own = {name.rpartition("TLS__")[2]: value for name, value in variables.items()}
    security = Security(
        require_encryption=True,
        tls_ca_file=own["CA_FILE"],
        tls_client_cert=own["CLIENT__CERT"],
        tls_client_key=own["CLIENT__KEY"],
    )
    path = write_manifest(home / "tls.toml", output="tls")
    with dask(tmp_path / "dask", security, **variables) as cluster:
        cluster.worker()
        until(lambda: cluster.count() == 1)
        # Without certificates, and without encryption.
        message = refused(path, "--on", cluster.url)
        assert "Dask's configuration has no certificates; mend it, or set DASK_" in message
        assert "no scheduler answers" in refused(path, "--on", cluster.url.replace("+tls", ""))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as other:
            other.setenv("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", str(tmp_path / "absent"))
            message = refused(path, "--on", cluster.url)
            assert "certificates of Dask's configuration cannot be read: No such file" in message
        with monkeypatch.context() as other:
            other.setenv("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", "True")
            message = refused(path, "--on", cluster.url.replace("+tls", ""))
            assert f"requires encryption; write {cluster.url}" in message
        assert sweep(path, "--on", cluster.url, status=1)["ran"] == 39
    assert outputs(home / "tls") == outputs(home / "local")
