"""The versions of this package and of the program."""

from __future__ import annotations

import shutil
import subprocess

from . import _native
from .errors import NotFoundError, VersionError

__all__ = ["binary_version", "check_version"]

#: Time after which the program is taken for hanging, in seconds.
_TIMEOUT_S = 30


def binary_version(program: str = "overdrive") -> str:
    """Returns the version of the program ``overdrive``.

    Args:
        program: The program, by its path or its name in PATH.

    Raises:
        NotFoundError: There is no such program.
        VersionError: It does not print a version.
    """
    found = shutil.which(program)
    if found is None:
        raise NotFoundError(f"{program}: there is no such program; install overdrive")
    try:
        done = subprocess.run(
            [found, "--version"],
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VersionError(f"{found} --version: {error}") from None
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 2 or words[0] != "overdrive":
        raise VersionError(f"{found} --version: prints no version of overdrive")
    return words[1]


def check_version(program: str = "overdrive") -> None:
    """Checks that the program has the version of this package.

    Args:
        program: The program, by its path or its name in PATH.

    Raises:
        NotFoundError: There is no such program.
        VersionError: The versions differ. The message has both.
    """
    version = binary_version(program)
    if version != _native.VERSION:
        raise VersionError(
            f"{program} is version {version}, the Python package overdrive is version "
            f"{_native.VERSION}; install the same version of both"
        )
