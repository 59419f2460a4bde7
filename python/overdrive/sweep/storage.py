"""Places for results and traces: local paths, or URLs of fsspec such as ``s3://bucket/folder``."""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from .errors import SweepError

#: Files of an output: all rows, the folder with the rows of each job, and the digests of traces.
RESULTS, CSV, PARTS, DIGESTS = "results.parquet", "results.csv", "parts", "traces.json"


def is_url(path: str) -> bool:
    """Whether a path is a URL of fsspec."""
    return "://" in path


def file_system(url: str) -> tuple[Any, str]:
    """Returns the file system of a URL, and the path in it.

    Raises:
        SweepError: fsspec, or the package for this kind of URL, is not installed.
    """
    try:
        import fsspec.core
    except ImportError:
        package = "s3fs" if url.startswith("s3://") else "fsspec"
        what = f"run {sys.executable} -m pip install {package}"
        raise SweepError(f"{url}: URLs require fsspec; {what}") from None
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise SweepError(f"{url}: {error}; install the package for this kind of URL") from None
    except TypeError as error:
        # A very old s3fs, which pip takes if other packages exclude newer ones.
        raise SweepError(f"{url}: {error}; upgrade the package for this kind of URL") from None
    return found


class Store(ABC):
    """A place for files, which appear in it as a whole, under their names."""

    @abstractmethod
    def name_of(self, name: str) -> str:
        """Returns the path or URL of a file."""

    @abstractmethod
    def _read(self, name: str) -> bytes | None: ...

    @abstractmethod
    def _names(self, folder: str) -> set[str]: ...

    @abstractmethod
    def _write(self, name: str, data: bytes) -> None: ...

    def read(self, name: str) -> bytes | None:
        """Returns a file's contents. None: there is no such file.

        Raises:
            SweepError: it cannot be read.
        """
        with self._errors(name, "read"):
            return self._read(name)

    def names(self, folder: str) -> set[str]:
        """Returns the names of the files in a folder below this one.

        Raises:
            SweepError: the folder cannot be read.
        """
        with self._errors(folder, "read"):
            return self._names(folder)

    def write(self, name: str, data: bytes) -> None:
        """Writes a file.

        Raises:
            SweepError: it cannot be written.
        """
        with self._errors(name, "written"):
            self._write(name, data)

    @contextlib.contextmanager
    def _errors(self, name: str, verb: str) -> Iterator[None]:
        """Turns all exceptions into one that names the file."""
        try:
            yield
        except Exception as error:  # noqa: BLE001: object stores have errors of all kinds
            what = "mend this, or give the manifest another output"
            place = self.name_of(name)
            raise SweepError(f"{place}: cannot be {verb}: {reason_of(error)}; {what}") from error


def reason_of(error: Exception) -> str:
    """Returns the reason of an exception in one line, without a path."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(reason.split()) or type(error).__name__


class Folder(Store):
    """A local folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def name_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, name: str) -> bytes | None:
        try:
            with open(self.name_of(name), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _write(self, name: str, data: bytes) -> None:
        """Writes a file under another name and renames it, so that a kill leaves no part of it."""
        path = self.name_of(name)
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".sweep-", suffix=".partial", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.chmod(temporary, 0o666 & ~_UMASK)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def _names(self, folder: str) -> set[str]:
        try:
            return set(os.listdir(self.name_of(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return set()


#: Protocols of object stores. They have no folders, and a misspelt bucket must not be made.
_BUCKETS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci"}


class Bucket(Store):
    """A folder at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.system, self.root = file_system(self.url)
        protocols = self.system.protocol
        protocols = {protocols} if isinstance(protocols, str) else set(protocols)
        self.has_folders = not protocols & _BUCKETS
        #: Folders that exist.
        self.made: set[str] = set()

    def name_of(self, name: str) -> str:
        return posixpath.join(self.url, name)

    def _read(self, name: str) -> bytes | None:
        try:
            data: bytes = self.system.cat_file(posixpath.join(self.root, name))
        except FileNotFoundError:
            return None
        return data

    def _write(self, name: str, data: bytes) -> None:
        """Stores an object in one call."""
        path = posixpath.join(self.root, name)
        folder = posixpath.dirname(path)
        if self.has_folders and folder not in self.made:
            self.system.makedirs(folder, exist_ok=True)
            self.made.add(folder)
        self.system.pipe_file(path, data)

    def _names(self, folder: str) -> set[str]:
        # Another process may have added files since the last listing.
        self.system.invalidate_cache()
        try:
            paths = self.system.ls(posixpath.join(self.root, folder), detail=False)
        except FileNotFoundError:
            return set()
        return {posixpath.basename(path) for path in paths}


def open_store(path: str, base: str) -> Store:
    """Returns a place for results; a local path is relative to ``base``."""
    return Bucket(path) if is_url(path) else Folder(os.path.join(base, path))


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_UMASK = _umask()
