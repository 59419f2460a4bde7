"""Places for results and traces: local paths, or URLs of fsspec such as ``s3://bucket/folder``."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
from typing import Any

from .errors import SweepError


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
        raise SweepError(f"{url}: URLs require fsspec; run pip install fsspec") from None
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise SweepError(f"{url}: {error}; install the package for this kind of URL") from None
    return found


class Folder:
    """A local folder. Files appear in it as a whole, under their names."""

    def __init__(self, path: str) -> None:
        self.path = path

    def name_of(self, name: str) -> str:
        """Returns the path of a file for messages."""
        return os.path.join(self.path, name)

    def read(self, name: str) -> bytes | None:
        """Returns a file's contents. None: there is no such file."""
        try:
            with open(self.name_of(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
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

    def names(self, folder: str) -> set[str]:
        """Returns the names of the files in a folder below this one."""
        try:
            return set(os.listdir(self.name_of(folder)))
        except FileNotFoundError:
            return set()


class Bucket:
    """A folder at a URL. An object appears when all of it is stored."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.system, self.root = file_system(self.url)

    def name_of(self, name: str) -> str:
        """Returns the URL of a file for messages."""
        return posixpath.join(self.url, name)

    def read(self, name: str) -> bytes | None:
        """Returns a file's contents. None: there is no such file."""
        try:
            data: bytes = self.system.cat_file(posixpath.join(self.root, name))
        except FileNotFoundError:
            return None
        return data

    def write(self, name: str, data: bytes) -> None:
        """Stores an object in one call."""
        path = posixpath.join(self.root, name)
        self.system.makedirs(posixpath.dirname(path), exist_ok=True)
        self.system.pipe_file(path, data)

    def names(self, folder: str) -> set[str]:
        """Returns the names of the files in a folder below this one."""
        # Another process may have added files since the last listing.
        self.system.invalidate_cache()
        try:
            paths = self.system.ls(posixpath.join(self.root, folder), detail=False)
        except FileNotFoundError:
            return set()
        return {posixpath.basename(path) for path in paths}


def open_folder(path: str, base: str) -> Folder | Bucket:
    """Returns a place for results; a local path is relative to ``base``."""
    return Bucket(path) if is_url(path) else Folder(os.path.join(base, path))


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


_UMASK = _umask()
