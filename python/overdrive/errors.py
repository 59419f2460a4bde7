"""The exceptions of this package. Each message names the file, its line or byte, or the parameter."""

from __future__ import annotations

__all__ = [
    "DeviceError",
    "Error",
    "InternalError",
    "MalformedError",
    "NotFoundError",
    "PermissionDeniedError",
    "ReadError",
    "UsageError",
    "VersionError",
]


class Error(Exception):
    """Base class of all exceptions of this package."""


class UsageError(Error, ValueError):
    """A parameter is wrong, or parameters make no sense together."""


class NotFoundError(Error, FileNotFoundError):
    """A file does not exist."""


class PermissionDeniedError(Error, PermissionError):
    """A file may not be read."""


class ReadError(Error, OSError):
    """A file cannot be read."""


class MalformedError(Error, ValueError):
    """A file is not what it should be, or is damaged. The message has the line or the byte."""


class DeviceError(Error):
    """A drive has failed, or has returned other data than was written."""


class VersionError(Error):
    """This package and the program ``overdrive`` have different versions."""


class InternalError(Error):
    """A fault of this package."""
