"""The traces of a sweep: found by paths, globs and URLs, and identified by their contents."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from .manifest import Manifest
from .progress import Progress
from .storage import Store, file_system, is_url

#: File of the digests that are known, in the folder of the results.
DIGESTS = "traces.json"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Trace:
    """A trace. ``identity`` follows from its contents; ``error`` is the reason if they are unknown."""

    name: str
    path: str
    format: str | None
    workload: str
    bytes: int
    identity: str = ""
    error: str | None = None


def find(manifest: Manifest) -> list[Trace]:
    """Returns the traces of a manifest in the order of their entries, and by name within a glob.

    A file that several entries match belongs to the first of them.

    Raises:
        ManifestError: a path does not exist, or a glob matches nothing.
    """
    found: dict[str, Trace] = {}
    for at, source in enumerate(manifest.sources):
        for pattern in source.paths:
            matches = _remote(pattern) if is_url(pattern) else _local(pattern, manifest.folder)
            if not matches:
                what = f"'{pattern}' matches no file; mend the path, which is relative to the manifest"
                raise manifest.error(f"traces[{at}].path", what)
            for name, path, size in matches:
                found.setdefault(path, Trace(name, path, source.format, source.workload, size))
    return list(found.values())


def _local(pattern: str, folder: str) -> list[tuple[str, str, int]]:
    """Returns the name, the absolute path and the bytes of the files that a path matches."""
    whole = os.path.join(folder, pattern)
    # A file whose name has brackets is named as it is.
    paths = [whole] if os.path.isfile(whole) else sorted(glob.glob(whole, recursive=True))
    files = [os.path.normpath(path) for path in paths if os.path.isfile(path)]
    return [(_name(path, folder), path, os.path.getsize(path)) for path in files]


def _name(path: str, folder: str) -> str:
    below = os.path.relpath(path, folder)
    return path if below.startswith("..") else below


def _remote(pattern: str) -> list[tuple[str, str, int]]:
    """Returns the URL twice, and the bytes, of the objects that a URL matches."""
    system, path = file_system(pattern)
    system.invalidate_cache()
    has_magic = any(letter in path for letter in "*?[")
    paths = sorted(system.glob(path)) if has_magic else [path] if system.isfile(path) else []
    urls = [system.unstrip_protocol(one) for one in paths if system.isfile(one)]
    return [(url, url, int(system.size(one) or 0)) for url, one in zip(urls, paths, strict=True)]


def identify(
    traces: Sequence[Trace], store: Store, threads: int, progress: Progress
) -> list[Trace]:
    """Returns the traces with their identities. Digests of unchanged local files are kept."""
    known = _known(store)
    stop = threading.Event()

    def one(trace: Trace) -> tuple[Trace, list[Any] | None]:
        try:
            return _identified(trace, known.get(trace.path), stop)
        except Exception as error:  # noqa: BLE001: object stores have errors of all kinds
            return replace(trace, identity=f"name:{trace.name}", error=_reason(error)), None

    done, digests = [], {}
    with ThreadPoolExecutor(threads) as pool:
        try:
            for trace, digest in pool.map(one, traces):
                done.append(trace)
                if digest is not None:
                    digests[trace.path] = digest
                progress.step("reading traces", trace.bytes)
        except KeyboardInterrupt:
            stop.set()
            raise
    if digests != known:
        text = json.dumps(digests, indent=0, sort_keys=True)
        store.write(DIGESTS, text.encode())
    return done


def _known(store: Store) -> dict[str, list[Any]]:
    try:
        found = json.loads(store.read(DIGESTS) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _identified(
    trace: Trace, known: list[Any] | None, stop: threading.Event
) -> tuple[Trace, list[Any] | None]:
    if is_url(trace.path):
        return replace(trace, identity=_remote_identity(trace, stop)), None
    found = os.stat(trace.path)
    stamp = [found.st_size, found.st_mtime_ns]
    if known is not None and known[:2] == stamp and len(known) == 3:
        digest = str(known[2])
    else:
        with open(trace.path, "rb") as file:
            digest = _digest(file, stop)
    return replace(trace, identity=f"sha256:{digest}"), [*stamp, digest]


def _remote_identity(trace: Trace, stop: threading.Event) -> str:
    """Returns the tag that the object store gives to the contents; without one, the digest."""
    system, path = file_system(trace.path)
    tag = system.info(path).get("ETag")
    if tag:
        return f"etag:{tag.strip(chr(34))}:{trace.bytes}"
    with system.open(path, "rb") as file:
        return f"sha256:{_digest(file, stop)}"


def _digest(file: Any, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    while not stop.is_set() and (chunk := file.read(_CHUNK)):
        digest.update(chunk)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason or type(error).__name__


class _Copies:
    """Local copies of remote traces in a process. The one that was used last is kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users: dict[str, int] = {}
        self.locks: dict[str, threading.Lock] = {}
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    @contextlib.contextmanager
    def copy(self, url: str, identity: str) -> Iterator[str]:
        """Downloads an object into a folder below the working directory, or finds it there."""
        name = hashlib.sha256(identity.encode()).hexdigest()[:16]
        with self.lock:
            if self.folder is None:
                self.folder = tempfile.TemporaryDirectory(prefix="overdrive-", dir=os.getcwd())
            path = os.path.join(self.folder.name, name + "-" + os.path.basename(url))
            self.users[path] = self.users.get(path, 0) + 1
            own = self.locks.setdefault(path, threading.Lock())
        try:
            with own:
                if not os.path.exists(path):
                    system, remote = file_system(url)
                    system.get_file(remote, path + ".partial")
                    os.replace(path + ".partial", path)
            yield path
        finally:
            self._release(path)

    def _release(self, path: str) -> None:
        """Removes the copies that nobody uses, except this one."""
        with self.lock:
            self.users[path] -= 1
            for other in [one for one, users in self.users.items() if not users and one != path]:
                del self.users[other], self.locks[other]
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(other)


_COPIES = _Copies()


@contextlib.contextmanager
def local_path(path: str, identity: str) -> Iterator[str]:
    """Gives a local path to a trace, which is a copy if the trace is at a URL."""
    if not is_url(path):
        yield path
        return
    with _COPIES.copy(path, identity) as copy:
        yield copy
