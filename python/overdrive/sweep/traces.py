"""The traces of a sweep: found by paths, globs and URLs, and identified by their contents."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from .errors import TRACE, JobError, SweepError
from .manifest import Manifest
from .progress import Progress
from .storage import CSV, DIGESTS, PARTS, RESULTS, Store, file_system, is_url, reason_of

_CHUNK = 1 << 20
#: A file that was changed this short time before it was read may change again without another time.
_RECENT_NS = 2_000_000_000

#: The bytes of a file, and the times of change of its contents and of its inode, in nanoseconds.
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Trace:
    """A trace. ``identity`` follows from its contents; ``error`` is the reason if they are unknown."""

    name: str
    path: str
    format: str | None
    workload: str
    bytes: int
    stamp: Stamp | None = None
    identity: str = ""
    error: str | None = None


def find(manifest: Manifest) -> list[Trace]:
    """Returns the traces of a manifest in the order of their entries, and by name within a glob.

    A file that several entries match belongs to the first of them. A glob does not match the
    results of the sweep, which may be in a folder of traces.

    Raises:
        ManifestError: a path does not exist, or a glob matches nothing.
    """
    found: dict[str, Trace] = {}
    output = _output(manifest)
    for at, source in enumerate(manifest.sources):
        for pattern in source.paths:
            matches = _remote(pattern) if is_url(pattern) else _local(pattern, manifest.folder)
            if glob.has_magic(pattern):
                matches = [one for one in matches if not _is_result(one[1], output)]
            if not matches:
                remedy = "mend the URL" if is_url(pattern) else (
                    "mend the path, which is relative to the manifest"
                )
                what = f"'{pattern}' matches no file; {remedy}"
                raise manifest.error(f"traces[{at}].path", what)
            for name, path, size in matches:
                found.setdefault(path, Trace(name, path, source.format, source.workload, size))
    return list(found.values())


def _output(manifest: Manifest) -> str:
    """Returns the absolute path or the URL of the results."""
    if is_url(manifest.output):
        return manifest.output.rstrip("/")
    return os.path.normpath(os.path.join(manifest.folder, manifest.output))


def _is_result(path: str, output: str) -> bool:
    """Whether a path or URL is of a file that sweeps write into this output."""
    below = path.removeprefix(output + "/")
    return below != path and (
        below in (RESULTS, CSV, DIGESTS) or below.startswith(PARTS + "/")
    )


def _local(pattern: str, folder: str) -> list[tuple[str, str, int]]:
    """Returns the name, the absolute path and the bytes of the files that a path matches."""
    whole = os.path.join(folder, pattern)
    # A file whose name has brackets is named as it is.
    paths = [whole] if os.path.isfile(whole) else sorted(glob.glob(whole, recursive=True))
    files = [os.path.normpath(path) for path in paths if os.path.isfile(path)]
    return [(_name(path, folder), path, os.path.getsize(path)) for path in files]


def _name(path: str, folder: str) -> str:
    """Returns the path as the results have it: text, which the bytes of a path may not be."""
    below = os.path.relpath(path, folder)
    name = path if below.startswith("..") else below
    return os.fsencode(name).decode(errors="backslashreplace")


def _remote(pattern: str) -> list[tuple[str, str, int]]:
    """Returns the URL twice, and the bytes, of the objects that a URL matches.

    Raises:
        SweepError: the store does not answer, or refuses the answer.
    """
    system, path = file_system(pattern)
    try:
        system.invalidate_cache()
        if any(letter in path for letter in "*?["):
            found = system.glob(path, detail=True)
        else:
            found = {path: system.info(path)} if system.exists(path) else {}
    except Exception as error:  # noqa: BLE001: object stores have errors of all kinds
        what = "mend the URL, the credentials or the endpoint"
        raise SweepError(f"{pattern}: cannot be listed: {reason_of(error)}; {what}") from error
    files = sorted((one, info) for one, info in found.items() if info["type"] == "file")
    urls = [(system.unstrip_protocol(one), info) for one, info in files]
    return [(url, url, int(info.get("size") or 0)) for url, info in urls]


def identify(
    traces: Sequence[Trace], store: Store, threads: int, progress: Progress
) -> list[Trace]:
    """Returns the traces with their identities. Digests of unchanged local files are kept."""
    known = _known(store)
    if not known:
        # An output that cannot be written is found before hours of reading.
        store.write(DIGESTS, b"{}")
    stop = threading.Event()

    def one(trace: Trace) -> tuple[Trace, _Digest | None]:
        try:
            return _identified(trace, known.get(trace.path), stop)
        except Exception as error:  # noqa: BLE001: object stores have errors of all kinds
            return replace(trace, identity=f"name:{trace.name}", error=reason_of(error)), None

    done: list[Trace] = []
    digests: dict[str, list[Any]] = {}
    with ThreadPoolExecutor(threads) as pool:
        try:
            for trace, digest in pool.map(one, traces):
                done.append(trace)
                if digest is not None:
                    digests[trace.path] = [*digest.stamp, digest.hex]
                progress.step("reading traces", trace.bytes)
        finally:
            stop.set()
            # Digests of many large files are worth keeping after Ctrl-C.
            whole = len(done) == len(traces)
            if digests != known:
                merged = digests if whole else {**known, **digests}
                text = json.dumps(merged, indent=0, sort_keys=True)
                store.write(DIGESTS, text.encode())
    return done


def _known(store: Store) -> dict[str, list[Any]]:
    try:
        found = json.loads(store.read(DIGESTS) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class _Digest:
    """A digest, and the file of which it is."""

    stamp: Stamp
    hex: str


def _identified(
    trace: Trace, known: Any, stop: threading.Event
) -> tuple[Trace, _Digest | None]:
    if is_url(trace.path):
        return replace(trace, identity=_remote_identity(trace, stop)), None
    stamp = _stamp(trace.path)
    if isinstance(known, list) and known[:3] == list(stamp) and len(known) == 4:
        digest = _Digest(stamp, str(known[3]))
        return replace(trace, stamp=stamp, identity=f"sha256:{digest.hex}"), digest
    now = time.time_ns()
    digest = _Digest(stamp, digest_of(trace.path, stop))
    if _stamp(trace.path) != stamp:
        raise OSError("is being changed; run the same command again when it is complete")
    trace = replace(trace, bytes=stamp[0], stamp=stamp, identity=f"sha256:{digest.hex}")
    is_recent = now - max(stamp[1:]) < _RECENT_NS
    return trace, None if is_recent else digest


def _stamp(path: str) -> Stamp:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _remote_identity(trace: Trace, stop: threading.Event) -> str:
    """Returns the tag that the object store gives to the contents; without one, the digest."""
    system, path = file_system(trace.path)
    tag = _tag(system.info(path))
    if tag is not None:
        return tag
    with system.open(path, "rb") as file:
        return f"sha256:{_digest(file, stop)}"


def _tag(info: dict[str, Any]) -> str | None:
    tag = info.get("ETag")
    return f"etag:{tag.strip(chr(34))}:{int(info.get('size') or 0)}" if tag else None


def digest_of(path: str, stop: threading.Event) -> str:
    """Returns the SHA-256 digest of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return _digest(file, stop)


def _digest(file: Any, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    while not stop.is_set():
        chunk = file.read(_CHUNK)
        if not chunk:
            return digest.hexdigest()
        digest.update(chunk)
    raise InterruptedError("interrupted")


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
                    _download(url, identity, path)
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


def _download(url: str, identity: str, path: str) -> None:
    """Copies an object, if it is still the one that was identified."""
    system, remote = file_system(url)
    partial = path + ".partial"
    try:
        system.get_file(remote, partial)
        if identity.startswith("sha256:"):
            found: str | None = f"sha256:{digest_of(partial, threading.Event())}"
        else:
            system.invalidate_cache()
            found = _tag(system.info(remote))
        if found != identity:
            raise _changed()
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)


def _changed() -> JobError:
    what = "has other contents than at the start of the sweep; run the same command again"
    return JobError(f"{TRACE}: {what}", lasting=False)


#: Digests of files whose stamp on this machine differs from that on the sweep's: of copies.
_OWN_DIGESTS: dict[tuple[str, Stamp], str] = {}


def _check_file(path: str, identity: str, stamp: Stamp) -> Stamp:
    """Checks that a file has the contents that were identified. Returns its stamp here."""
    here = _stamp(path)
    if here == stamp:
        return here
    if (path, here) not in _OWN_DIGESTS:
        _OWN_DIGESTS[path, here] = digest_of(path, threading.Event())
    if f"sha256:{_OWN_DIGESTS[path, here]}" != identity:
        raise _changed()
    return here


@contextlib.contextmanager
def local_path(path: str, identity: str, stamp: Stamp | None) -> Iterator[str]:
    """Gives a local path to a trace, which is a copy if the trace is at a URL.

    Raises:
        JobError: the contents are not those that were identified, or they change meanwhile.
    """
    if is_url(path):
        with _COPIES.copy(path, identity) as copy:
            yield copy
        return
    before = _check_file(path, identity, stamp) if stamp is not None else None
    try:
        yield path
    finally:
        # Also a failure may be one of other contents.
        if before is not None and _stamp(path) != before:
            raise _changed()
